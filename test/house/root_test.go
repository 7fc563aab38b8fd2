package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRoot keeps the root of the module to the public interface of the server.
func TestRoot(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			code = append(code, filepath.Base(f))
		}
	}
	if want := []string{"doc.go", "kapok.go", "options.go"}; !slices.Equal(code, want) {
		t.Errorf("the root holds %q, want %q: what starts and stops parts belongs in internal/server, options in the part that uses them", code, want)
	}
}

// TestOptions holds what go doc says of kapok.Options: the doc of each field, and in that of each
// alias the command that prints the fields of its type.
func TestOptions(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "options.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{} // of packages, by name
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths[path.Base(imported)] = imported
	}
	fields, aliases := 0, 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		switch of := spec.Type.(type) {
		case *ast.StructType:
			for _, field := range of.Fields.List {
				for _, name := range field.Names {
					if fields++; !strings.HasPrefix(field.Doc.Text(), name.Name+" ") {
						t.Errorf("the doc of %s.%s does not begin with its name: define it, with units and default", spec.Name, name)
					}
				}
			}
		case *ast.SelectorExpr:
			aliases++
			command := "go doc " + paths[of.X.(*ast.Ident).Name] + "." + of.Sel.Name + "\n"
			if !strings.HasPrefix(spec.Doc.Text(), spec.Name.Name+" ") || !strings.HasSuffix(spec.Doc.Text(), "\n\t"+command) {
				t.Errorf("the doc of %s does not end with the command that prints its fields: %s", spec.Name, command)
			}
		}
		return true
	})
	if fields < 20 || aliases < 10 {
		t.Errorf("found %d fields and %d aliases: the test looks at the wrong place", fields, aliases)
	}
}
