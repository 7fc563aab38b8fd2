package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestWatch generates after changes of sources, also after one that is wrong, and in a new
// directory.
func TestWatch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted on Windows")
	}
	p := newProject(t)
	types := func(field string) string {
		return "// +groupName=example.com\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n// +kubebuilder:object:root=true\ntype Widget struct {\n" +
			"\tmetav1.TypeMeta `json:\",inline\"`\n\tmetav1.ObjectMeta `json:\"metadata,omitempty\"`\n\t" + field + "\n}\n"
	}
	p.write("go.mod", "module example.com/widgets\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.37.2\n")
	if err := os.MkdirAll(filepath.Join(p.dir, "api", "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("api/v1/types.go", types("Size string `json:\"size\"`"))
	p.tool("mod", "tidy")

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self, "generate", "--watch", "crd", "output:dir=crds")
	c.Dir, c.Env = p.dir, append(os.Environ(), asCommand+"=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	await := func(want string) {
		t.Helper()
		var seen []string
		for lines.Scan() {
			seen = append(seen, lines.Text())
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("it has ended without %q:\n%s", want, strings.Join(seen, "\n"))
	}
	await("crds/example.com_widgets.yaml")
	p.write("api/v1/types.go", types("// +kubebuilder:validation:MinLenght=1\n\tSize string `json:\"size\"`"))
	await("did you mean +kubebuilder:validation:MinLength?")
	p.write("api/v1/types.go", types("// +kubebuilder:validation:MinLength=1\n\tSize string `json:\"size\"`"))
	await("crds/example.com_widgets.yaml")
	if !strings.Contains(p.read("crds/example.com_widgets.yaml"), "minLength: 1") {
		t.Errorf("the definition is\n%s", p.read("crds/example.com_widgets.yaml"))
	}
	if err := os.MkdirAll(filepath.Join(p.dir, "api", "v2"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("api/v2/types.go", strings.NewReplacer("package v1", "package v2", "Widget", "Gadget").Replace(types("Size string `json:\"size\"`")))
	await("crds/example.com_gadgets.yaml")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}
