package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// undocumented are directories in which exported names without a doc comment are still allowed, "/..."
// for all below.
var undocumented = []string{"scheduler/...", "internal/authn/..."}

// TestDocComments checks that every exported name has a doc comment: names of packages, methods of
// exported types, and methods of interfaces. The only method of an interface may be described by the
// comment of the interface.
func TestDocComments(t *testing.T) {
	root := filepath.Join("..", "..")
	names := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != root && notOfTheModule(name, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if file.Name.Name == "main" || ast.IsGenerated(file) || matches(undocumented, path.Dir(filepath.ToSlash(rel))) {
			return nil
		}
		for _, e := range exported(file) {
			if names++; !e.documented {
				t.Errorf("%v: %s has no doc comment: say what it does or is", files.Position(e.name.Pos()), e.name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if names < 2000 {
		t.Errorf("found %d exported names: the test looks at the wrong place", names)
	}
}

// TestDocCommentsFail checks that names without a comment are found.
func TestDocCommentsFail(t *testing.T) {
	const source = `package p

// A is documented.
type A struct{}

func (A) Bare() {}

type hidden struct{}

func (hidden) Method() {}

// I is documented, and one of its methods.
type I interface {
	// Said is documented.
	Said()
	Unsaid()
}

// One describes its method.
type One interface{ Only() }

// The group has a comment.
const (
	C = 1
	D = 2
)

var V, w = 1, 2

func F() {}

func (a *G[T]) Of() {}

type G[T any] int // of any T
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, e := range exported(file) {
		if !e.documented {
			missing = append(missing, e.name.Name)
		}
	}
	if got, want := strings.Join(missing, " "), "Bare Unsaid V F Of"; got != want {
		t.Errorf("names without a comment: %s, want %s", got, want)
	}
}

// An exportedName is a name that users of a package see.
type exportedName struct {
	name       *ast.Ident
	documented bool
}

// exported returns the exported names of a file, without fields of structs.
func exported(file *ast.File) (all []exportedName) {
	add := func(names []*ast.Ident, comments ...*ast.CommentGroup) {
		for _, name := range names {
			if !name.IsExported() {
				continue
			}
			e := exportedName{name: name}
			for _, c := range comments {
				e.documented = e.documented || c != nil
			}
			all = append(all, e)
		}
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiver(d).IsExported() {
				add([]*ast.Ident{d.Name}, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					add(s.Names, s.Doc, s.Comment, d.Doc)
				case *ast.TypeSpec:
					add([]*ast.Ident{s.Name}, s.Doc, s.Comment, d.Doc)
					if of, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() && declared(of) > 1 {
						for _, method := range of.Methods.List {
							add(method.Names, method.Doc, method.Comment)
						}
					}
				}
			}
		}
	}
	return all
}

// receiver returns the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) (name *ast.Ident) {
	ast.Inspect(method.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && name == nil {
			name = id // the first one: type parameters follow
		}
		return name == nil
	})
	return name
}
