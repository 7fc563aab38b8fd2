package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostMethods is the maximum number of methods that an interface declares. Methods of embedded
// interfaces count where these are declared.
const mostMethods = 6

func TestInterfacesAreSmall(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]int{} // by the directory below the root
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
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			iface, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			found[top]++
			if methods := declared(iface); methods > mostMethods {
				t.Errorf("%v: %s declares %d methods, more than %d: split it into the parts that its users need, and embed them",
					fset.Position(spec.Pos()), spec.Name, methods, mostMethods)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, least := range map[string]int{"client": 10, "manager": 10, "internal": 30} {
		if found[dir] < least {
			t.Errorf("found %d interfaces in %s, fewer than %d: the test looks at the wrong place", found[dir], dir, least)
		}
	}
}

// declared counts the methods that an interface declares itself.
func declared(iface *ast.InterfaceType) int {
	methods := 0
	for _, m := range iface.Methods.List {
		methods += len(m.Names) // none for an embedded interface
	}
	return methods
}

// notOfTheModule reports whether a directory below the root holds no packages of the module.
func notOfTheModule(dir, base string) bool {
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil // a module of its own
}
