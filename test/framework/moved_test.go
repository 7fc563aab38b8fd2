package framework

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const runtimePath = "sigs.k8s.io/controller-runtime"

// TestMoveByImports changes nothing but the imports of an operator, as docs/from-controller-runtime.md says, and builds it.
func TestMoveByImports(t *testing.T) {
	moves := readMoves(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module = bytes.Replace(module, []byte("module github.com/kapok-dev/kapok\n"),
		[]byte("module example.com/project\n\nrequire github.com/kapok-dev/kapok v0.0.0\n\nreplace github.com/kapok-dev/kapok => "+root+"\n"), 1)
	write(t, filepath.Join(dir, "go.mod"), module)

	files, err := filepath.Glob("project/*.go")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		write(t, filepath.Join(dir, filepath.Base(file)), moves.apply(t, file))
	}
	cmd := exec.Command("go", "vet", "-mod=mod", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// moves are the packages of Kapok for those of controller-runtime. The package of all names, "", has several.
type moves map[string][]string

// readMoves reads the table of imports.
func readMoves(t *testing.T) moves {
	t.Helper()
	text, err := os.ReadFile("../../docs/from-controller-runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Imports\n")
	table, _, _ = strings.Cut(table, "\n## ")
	m := moves{}
	row := regexp.MustCompile(`(?m)^\| (.*) \| (.*) \|$`)
	old := regexp.MustCompile("`(pkg/[a-z/]+|ctrl[^`]*)`")
	for _, cells := range row.FindAllStringSubmatch(table, -1) {
		target := regexp.MustCompile(`github\.com/kapok-dev/kapok/[a-z/]+`).FindString(cells[2])
		if target == "" {
			continue
		}
		for _, from := range old.FindAllStringSubmatch(cells[1], -1) {
			name := strings.TrimPrefix(from[1], "ctrl")
			if name != from[1] {
				name = ""
			}
			m[name] = append(m[name], target)
		}
	}
	if len(m) < 10 || len(m[""]) != 3 {
		t.Fatalf("the table has %v", m)
	}
	return m
}

// apply returns a file with its imports moved.
func (m moves) apply(t *testing.T, file string) []byte {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if from != runtimePath && !strings.HasPrefix(from, runtimePath+"/") {
			continue
		}
		if spec.Name == nil {
			spec.Name = ast.NewIdent(path.Base(from))
		}
		to := m[strings.TrimPrefix(strings.TrimPrefix(from, runtimePath), "/")]
		if len(to) == 0 {
			t.Fatalf("%s: the table does not say what becomes of %s", file, from)
		}
		target := to[0]
		if len(to) > 1 {
			target = m.whole(f, spec.Name.Name)
		}
		spec.Path.Value = strconv.Quote(target)
	}
	var out bytes.Buffer
	if err := format.Node(&out, set, f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// whole is what the package of all names becomes, by what a file uses of it.
func (m moves) whole(f *ast.File, name string) string {
	target := "controller"
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				switch s.Sel.Name {
				case "NewManager":
					target = "manager"
				case "NewWebhookManagedBy":
					target = "webhook"
				}
			}
		}
		return true
	})
	for _, p := range m[""] {
		if path.Base(p) == target {
			return p
		}
	}
	return ""
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, data)
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
