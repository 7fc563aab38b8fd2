package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is the maximum width of the lines of comments, in columns; a tab is one.
const width = 100

// TestWidth checks the width of comments on lines of their own. Preformatted lines, links,
// directives, the output of examples, and generated files may be wider.
func TestWidth(t *testing.T) {
	lines := 0
	parsed(t, true, func(f goFile) {
		if ast.IsGenerated(f.syntax) {
			return
		}
		for _, group := range f.syntax.Comments {
			if output.MatchString(group.Text()) {
				continue
			}
			for _, c := range group.List {
				lines++
				if !f.tooWide(c) {
					continue
				}
				t.Errorf("%v: the comment is wider than %d columns", f.position(c), width)
			}
		}
	})
	if lines < 10000 {
		t.Errorf("found %d lines of comments: the test looks at the wrong place", lines)
	}
}

// TestTooWide checks which comments TestWidth finds.
func TestTooWide(t *testing.T) {
	text := strings.Repeat("é", width-4)
	for comment, want := range map[string]bool{
		"\t// " + text:          false,
		"\t// " + text + "é":    true,
		"//\t" + text + "éé":    false,
		"var v = 1 // " + text:  false,
		"// http://" + text:     false,
		"//nolint:all " + text:  false,
		"/* " + text + "éé */":  false,
		"\t\t//   - " + text:    true,
		"// +optional é" + text: false,
	} {
		source := "package p\n" + comment + "\nvar w int\n"
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "p.go", source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f := goFile{files: files, source: []byte(source), syntax: file}
		if got := f.tooWide(file.Comments[0].List[0]); got != want {
			t.Errorf("%q is too wide: %t, want %t", comment, got, want)
		}
	}
}

// TestDocComments checks that every exported name has a doc comment: names of packages, methods of
// exported types, and methods of interfaces. The comment of an interface with a single method may
// describe it.
func TestDocComments(t *testing.T) {
	names := 0
	parsed(t, false, func(f goFile) {
		if strings.HasSuffix(f.path, "_test.go") || f.syntax.Name.Name == "main" || ast.IsGenerated(f.syntax) {
			return
		}
		for _, e := range exported(f.syntax) {
			if names++; !e.documented {
				t.Errorf("%v: %s has no doc comment: say what it does or is", f.position(e.name), e.name.Name)
			}
		}
	})
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

// A goFile is a parsed file.
type goFile struct {
	path   string // below the root, with slashes
	files  *token.FileSet
	source []byte
	syntax *ast.File
}

func (f *goFile) position(n ast.Node) token.Position { return f.files.Position(n.Pos()) }

// output begins the output of an example.
var output = regexp.MustCompile(`(?i)^(unordered )?output:`)

// directive matches comments for tools.
var directive = regexp.MustCompile(`^//(\w|\s*\+)`)

// tooWide reports whether a comment is on a line of its own that is too wide.
func (f *goFile) tooWide(c *ast.Comment) bool {
	at := f.position(c)
	indent := f.source[at.Offset-(at.Column-1) : at.Offset]
	alone := len(bytes.TrimLeft(indent, "\t")) == 0
	text := strings.HasPrefix(c.Text, "//") && !strings.HasPrefix(c.Text, "//\t") && !directive.MatchString(c.Text)
	return alone && text && !strings.Contains(c.Text, "://") && len(indent)+utf8.RuneCountInString(c.Text) > width
}

// parsed parses the Go files of the module, with those of nested modules if they are wanted.
func parsed(t *testing.T, nested bool, visit func(goFile)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			base := entry.Name()
			if name != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || !nested && notOfTheModule(name, base)) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := goFile{path: filepath.ToSlash(rel), files: token.NewFileSet()}
		if f.source, err = os.ReadFile(name); err != nil {
			return err
		}
		if f.syntax, err = parser.ParseFile(f.files, name, f.source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		visit(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
