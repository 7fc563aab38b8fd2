package framework

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/port"
)

// TestMoveByImports changes nothing but the imports of operators, as `kapok port` does, and builds
// them.
func TestMoveByImports(t *testing.T) {
	for _, project := range []string{"project", "scaffold"} {
		t.Run(project, func(t *testing.T) { build(t, moved(t, project), "vet", "./...") })
	}
}

// TestMoveOfTypedControllers moves an operator with request types of its own, and builds it. A few
// of its names are others afterwards.
func TestMoveOfTypedControllers(t *testing.T) {
	dir, _ := move(t, "typed")
	build(t, dir, "vet", "./...")
}

// moved is move for a project in which nothing changes but imports.
func moved(t *testing.T, project string) (dir string) {
	t.Helper()
	dir, changes := move(t, project)
	onlyImports(t, changes)
	return dir
}

// move copies a project into a module of its own, without controller-runtime, and moves it.
func move(t *testing.T, project string) (dir string, changes []port.Change) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(project)); err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	path := "github.com/kapok-dev/kapok/test/framework/" + project
	module = bytes.Replace(module, []byte("module github.com/kapok-dev/kapok\n"),
		[]byte("module "+path+"\n\nrequire github.com/kapok-dev/kapok v0.0.0\n\nreplace github.com/kapok-dev/kapok => "+root+"\n"), 1)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), module)
	write(t, filepath.Join(dir, "go.sum"), sums)

	changes, findings, err := port.Dir(os.DirFS(dir))
	if err != nil || len(changes) < 3 {
		t.Fatalf("%d files moved: %v", len(changes), err)
	}
	for _, f := range findings {
		if !f.Note {
			t.Error(f)
		}
	}
	if err := port.Write(dir, changes); err != nil {
		t.Fatal(err)
	}
	return dir, changes
}

// onlyImports fails for changes of anything but imports.
func onlyImports(t *testing.T, changes []port.Change) {
	t.Helper()
	for _, c := range changes {
		_, before, _ := strings.Cut(string(c.Before), "\n)\n")
		_, after, _ := strings.Cut(string(c.After), "\n)\n")
		if before != after || before == "" {
			t.Errorf("%s has changed after its imports", c.Name)
		}
	}
}

func build(t *testing.T, dir, command string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{command, "-mod=mod"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
