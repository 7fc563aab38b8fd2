package framework

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/port"
)

// TestPortListsEachMissingField writes a program that sets each field of each struct of
// controller-runtime, and moves it: a field that is not here is listed, and no other.
func TestPortListsEachMissingField(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", port.From).Output()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{
		"pkg/certwatcher.CertWatcher.RWMutex": true, // not for programs to set
		"pkg/log/zap.Options.NewEncoder":      true, // of another type
	}
	from, fields := string(bytes.TrimSpace(out)), 0
	err = fs.WalkDir(os.DirFS(from), "pkg", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "internal" || d.Name() == "testdata" || d.Name() == "envtest" {
			return fs.SkipDir
		}
		there := structs(t, filepath.Join(from, dir))
		if len(there) == 0 {
			return nil
		}
		to := target(t, dir)
		if to == "" {
			return nil
		}
		here := structs(t, filepath.Join("..", "..", to))
		for _, name := range slices.Sorted(maps.Keys(there)) {
			if here[name] == nil { // the name itself is listed, or it is of another package
				continue
			}
			for _, field := range slices.Sorted(maps.Keys(there[name])) {
				fields++
				listed := lists(t, dir, name, field)
				if differs := here[name][field] != there[name][field]; differs == (listed != "") || known[dir+"."+name+"."+field] {
					continue
				}
				t.Errorf("%s.%s.%s is %q here and %q there, but kapok port lists %q", dir, name, field, here[name][field], there[name][field], listed)
			}
		}
		return nil
	})
	if err != nil || fields < 200 {
		t.Fatalf("%d fields: %v", fields, err)
	}
}

// target returns the package that takes the place of one of controller-runtime, "" if none does.
func target(t *testing.T, dir string) string {
	t.Helper()
	moved, _, err := port.File("p.go", fmt.Appendf(nil, "package p\n\nimport x %q\n\nvar _ x.X\n", port.From+"/"+dir))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(port.To + `/([a-z/]+)"`).FindSubmatch(moved)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// lists returns what the move of a program that sets a field lists about it.
func lists(t *testing.T, dir, name, field string) string {
	t.Helper()
	_, findings, err := port.File("p.go", fmt.Appendf(nil, "package p\n\nimport x %q\n\nvar _ = x.%s{%s: nil}\n", port.From+"/"+dir, name, field))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.What == "x."+name+"."+field && !f.Note {
			return f.Advice
		}
	}
	return ""
}

// structs returns the fields of exported structs of a package, with their types as text.
func structs(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all, aliases := map[string]map[string]string{}, map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			decl, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				spec, ok := spec.(*ast.TypeSpec)
				if !ok || !spec.Name.IsExported() {
					continue
				}
				of := spec.Type
				if generic, ok := of.(*ast.IndexExpr); ok {
					of = generic.X
				}
				if generic, ok := of.(*ast.IndexListExpr); ok {
					of = generic.X
				}
				switch of := of.(type) {
				case *ast.Ident:
					aliases[spec.Name.Name] = of.Name
				case *ast.StructType:
					all[spec.Name.Name] = exportedFields(of)
				}
			}
		}
	}
	for name, of := range aliases {
		if fields, ok := all[of]; ok {
			all[name] = fields
		}
	}
	return all
}

// exportedFields returns the fields of a struct, and whether they are pointers.
func exportedFields(s *ast.StructType) map[string]string {
	fields := map[string]string{}
	for _, f := range s.Fields.List {
		kind := "value"
		if _, ok := f.Type.(*ast.StarExpr); ok {
			kind = "pointer"
		}
		for _, name := range f.Names {
			if name.IsExported() {
				fields[name.Name] = kind
			}
		}
		if len(f.Names) == 0 {
			of := f.Type
			if generic, ok := of.(*ast.IndexExpr); ok {
				of = generic.X
			}
			switch of := of.(type) {
			case *ast.Ident:
				fields[of.Name] = kind
			case *ast.SelectorExpr:
				fields[path.Base(of.Sel.Name)] = kind
			}
		}
	}
	return fields
}
