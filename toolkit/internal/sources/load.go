package sources

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/packages"
)

// ErrCgo is the error of Load for declarations that use types of C.
var ErrCgo = errors.New("a declaration uses cgo")

// Load fills Syntax and Types of packages, whose imports are listed: of the given ones with all
// their declarations, and of others as far as the declarations refer to them. Errors of the syntax
// are added to Errors; other errors in the sources are ignored, so that types may be invalid. Load
// returns all files of which it has read declarations, with their comments.
func Load(files *token.FileSet, whole []*packages.Package) ([]*ast.File, error) {
	l := &loader{files: files}
	if err := l.load(whole); err != nil {
		return nil, err
	}
	var read []*ast.File
	for _, u := range l.units {
		for i, file := range u.files {
			if u.used[i] {
				read = append(read, file)
			}
		}
	}
	return read, nil
}

// LoadShapes is like Load, for generators that read only types: of the given packages, it loads the
// declarations of types and constants, and of all types only the methods that tell how values are
// copied or encoded. It fills TypesInfo too.
func LoadShapes(files *token.FileSet, whole []*packages.Package) error {
	return (&loader{files: files, shapes: true}).load(whole)
}

// load loads packages. A package with an error of syntax has the files without it.
func (l *loader) load(whole []*packages.Package) error {
	l.units = map[*packages.Package]*unit{}
	l.limit.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range whole {
		l.parse(l.unit(p))
	}
	_ = l.limit.Wait() // its functions return no errors
	for _, p := range whole {
		u := l.unit(p)
		u.index(l.shapes)
		for _, d := range u.all {
			if !l.shapes || isShape(d.of) {
				l.mark(u, d)
			}
		}
	}
	for len(l.todo) > 0 {
		last := l.todo[len(l.todo)-1]
		l.todo = l.todo[:len(l.todo)-1]
		reach{l, last.unit, last.decl.file}.decl(last.decl.of)
	}
	if l.cgo {
		return ErrCgo
	}
	for _, p := range whole {
		l.check(l.unit(p))
	}
	return nil
}

// isShape reports whether a declaration is one of types or constants.
func isShape(decl ast.Decl) bool {
	d, ok := decl.(*ast.GenDecl)
	return ok && (d.Tok == token.TYPE || d.Tok == token.CONST)
}

// isShapeMethod reports whether a method of a type tells how its values are copied or encoded.
func isShapeMethod(name string) bool {
	switch name {
	case "DeepCopy", "DeepCopyInto", "DeepCopyObject", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText":
		return true
	}
	return false
}

// A loader loads packages. Only its parsing of files is concurrent.
type loader struct {
	files  *token.FileSet
	shapes bool // see LoadShapes
	units  map[*packages.Package]*unit
	todo   []needed
	limit  errgroup.Group
	cgo    bool // a needed declaration uses types of C
}

// needed is a declaration whose references are still to be followed.
type needed struct {
	unit *unit
	decl *declaration
}

// A unit is a package whose declarations are loaded as far as they are needed.
type unit struct {
	of      *packages.Package
	files   []*ast.File // nil if it cannot be parsed
	failed  []error     // of parsing a file
	used    []bool      // the files with needed declarations
	all     []*declaration
	byName  map[string][]*declaration
	methods map[string][]*declaration // by the name of their type
	values  map[string][]*declaration // the constants of a type, by its name
	imports []map[string]string       // the import paths by their names in a file, for each file
	dots    []*packages.Package       // packages imported as "."
	indexed bool
	checked bool
}

// A declaration is one outside of functions. Those in one pair of parentheses are one.
type declaration struct {
	of     ast.Decl
	file   int
	needed bool
}

func (l *loader) unit(p *packages.Package) *unit {
	u := l.units[p]
	if u == nil {
		u = &unit{of: p, files: make([]*ast.File, len(p.GoFiles)), failed: make([]error, len(p.GoFiles)), used: make([]bool, len(p.GoFiles))}
		l.units[p] = u
	}
	return u
}

// parse parses the files of a package. They are there when l.limit has been waited for.
func (l *loader) parse(u *unit) {
	release := isRelease(u.of)
	for i, name := range u.of.GoFiles {
		l.limit.Go(func() error {
			u.files[i], u.failed[i] = parseFile(l.files, name, release, l.shapes)
			return nil
		})
	}
}

// problems returns the error of a file as those of package packages.
func problems(name string, err error) (all []packages.Error) {
	list := scanner.ErrorList{}
	if !errors.As(err, &list) {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return []packages.Error{{Pos: name + ":1", Msg: err.Error(), Kind: packages.ParseError}}
	}
	for _, e := range list {
		all = append(all, packages.Error{Pos: e.Pos.String(), Msg: e.Msg, Kind: packages.ParseError})
	}
	return all
}

// index finds the declarations of a parsed package by their names.
func (u *unit) index(shapes bool) {
	if u.indexed {
		return
	}
	u.indexed = true
	u.byName, u.methods, u.values = map[string][]*declaration{}, map[string][]*declaration{}, map[string][]*declaration{}
	u.imports = make([]map[string]string, len(u.files))
	for i, file := range u.files {
		if file == nil {
			u.of.Errors = append(u.of.Errors, problems(u.of.GoFiles[i], u.failed[i])...)
			continue
		}
		u.imports[i] = map[string]string{}
		for _, spec := range file.Imports {
			u.importSpec(i, spec)
		}
		if shapes { // controller-tools expects a package of every import
			file.Imports = slices.DeleteFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"C"` })
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
				continue
			}
			d := &declaration{of: decl, file: i}
			u.all = append(u.all, d)
			for _, name := range namesOf(decl) {
				u.byName[name] = append(u.byName[name], d)
			}
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				name := receiver(f)
				u.methods[name] = append(u.methods[name], d)
			}
			for _, name := range typesOfConstants(decl) {
				u.values[name] = append(u.values[name], d)
			}
		}
	}
}

func (u *unit) importSpec(file int, spec *ast.ImportSpec) {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return
	}
	imported := u.of.Imports[path]
	switch {
	case path == "C":
		u.imports[file]["C"] = path
	case imported == nil:
	case spec.Name == nil:
		u.imports[file][imported.Name] = path
	case spec.Name.Name == ".":
		u.dots = append(u.dots, imported)
	case spec.Name.Name != "_":
		u.imports[file][spec.Name.Name] = path
	}
}

// namesOf returns the names that a declaration declares in its package.
func namesOf(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// typesOfConstants returns the names of the types in a declaration of constants.
func typesOfConstants(decl ast.Decl) (names []string) {
	if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
		for _, spec := range d.Specs {
			if of, ok := spec.(*ast.ValueSpec).Type.(*ast.Ident); ok {
				names = append(names, of.Name)
			}
		}
	}
	return names
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	if len(f.Recv.List) != 1 {
		return ""
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// need marks the declarations of a name in a package as needed, and the methods of its type.
func (l *loader) need(p *packages.Package, name string) {
	u := l.unit(p)
	if !u.indexed {
		l.parse(u)
		_ = l.limit.Wait()
		u.index(l.shapes)
	}
	declared := u.byName[name]
	if declared == nil {
		for _, dot := range u.dots {
			l.need(dot, name)
		}
	}
	for _, d := range declared {
		l.mark(u, d)
	}
}

func (l *loader) mark(u *unit, d *declaration) {
	if d.needed {
		return
	}
	d.needed, u.used[d.file] = true, true
	l.todo = append(l.todo, needed{u, d})
	if g, ok := d.of.(*ast.GenDecl); ok && g.Tok == token.TYPE {
		for _, name := range namesOf(g) {
			for _, method := range u.methods[name] {
				if !l.shapes || isShapeMethod(method.of.(*ast.FuncDecl).Name.Name) {
					l.mark(u, method)
				}
			}
			if l.shapes { // they may be the values of an enumeration
				for _, constants := range u.values[name] {
					l.mark(u, constants)
				}
			}
		}
	}
}

// check type-checks the needed declarations of a package, and first those of its imports.
func (l *loader) check(u *unit) *types.Package {
	if u.checked {
		return u.of.Types
	}
	u.checked = true
	u.of.Types = types.NewPackage(u.of.PkgPath, u.of.Name)
	var files []*ast.File
	for i, file := range u.files {
		if file == nil || !u.used[i] {
			continue
		}
		part := *file
		part.Decls = nil
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
				part.Decls = append(part.Decls, d)
			}
		}
		files = append(files, &part)
		for _, d := range u.all {
			if d.needed && d.file == i {
				part.Decls = append(part.Decls, d.of)
			}
		}
	}
	config := types.Config{
		IgnoreFuncBodies: true,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH)),
		Error:            func(error) {}, // code that is to be generated may be missing
		Importer: importer(func(path string) (*types.Package, error) {
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			p := u.of.Imports[path]
			if p == nil {
				return nil, fmt.Errorf("package %s is not listed", path)
			}
			return l.check(l.unit(p)), nil
		}),
	}
	if l.shapes && len(files) > 0 {
		u.of.Fset = l.files
		u.of.TypesInfo = &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Scopes: map[ast.Node]*types.Scope{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		}
	}
	_ = types.NewChecker(&config, l.files, u.of.Types, u.of.TypesInfo).Files(files)
	u.of.Types.MarkComplete()
	for _, file := range u.files {
		if file != nil {
			u.of.Syntax = append(u.of.Syntax, file)
		}
	}
	return u.of.Types
}

type importer func(path string) (*types.Package, error)

// Import implements types.Importer.
func (i importer) Import(path string) (*types.Package, error) { return i(path) }
