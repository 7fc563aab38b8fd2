package scaffold

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish adds a module to a directory that serves as GOPROXY.
func publish(t *testing.T, proxy string, m gomodule.Version, files map[string]string) {
	t.Helper()
	source := t.TempDir()
	files["go.mod"] = "module " + m.Path + "\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, m, source); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	list, err := os.OpenFile(filepath.Join(dir, "list"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(list, m.Version)
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	for ending, data := range map[string][]byte{
		".info": fmt.Appendf(nil, `{"Version":%q}`, m.Version), ".mod": []byte(files["go.mod"]), ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, m.Version+ending), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInstallOlder installs versions of kubebuilder whose program is at the root of its module, or
// below cmd.
func TestInstallOlder(t *testing.T) {
	proxy := t.TempDir()
	program := func(name string) string {
		return fmt.Sprintf("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(%q) }\n", name)
	}
	publish(t, proxy, gomodule.Version{Path: "sigs.k8s.io/kubebuilder/v4", Version: "v4.1.0"}, map[string]string{"cmd/main.go": program("below cmd")})
	publish(t, proxy, gomodule.Version{Path: "sigs.k8s.io/kubebuilder/v4", Version: "v4.9.0"}, map[string]string{"main.go": program("at root")})
	publish(t, proxy, gomodule.Version{Path: "sigs.k8s.io/kubebuilder/v4", Version: "v4.9.1"}, map[string]string{"main.go": "package main\n\nfunc main() { wrong }\n"})
	publish(t, proxy, gomodule.Version{Path: "sigs.k8s.io/kubebuilder", Version: "v1.0.8"}, map[string]string{"cmd/main.go": program("first")})
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOTOOLCHAIN", "local")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Cleanup(func() { // its files are read-only
		if out, err := exec.Command("go", "clean", "-modcache").CombinedOutput(); err != nil {
			t.Errorf("go clean: %v\n%s", err, out)
		}
	})
	for from, want := range map[string]string{
		"kubebuilder@v4.1.0": "below cmd", "kubebuilder@v4.9.0": "at root", "kubebuilder@v1.0.8": "first",
	} {
		var out strings.Builder
		path, err := installOlder(t.Context(), from, t.TempDir(), &out)
		if err != nil {
			t.Errorf("%s: %v\n%s", from, err, out.String())
			continue
		}
		if said, err := exec.Command(path).CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != want {
			t.Errorf("%s: %v, %q, want %q", from, err, said, want)
		}
	}
	for from, want := range map[string]string{
		"kubebuilder@v4.9.1": "undefined: wrong", "kubebuilder@v4.3.0": "v4.3.0", "kubebuilder@4.9.0": "must be like v1.2.3", "other@v1.0.0": "want kubebuilder@VERSION",
	} {
		if _, err := installOlder(t.Context(), from, t.TempDir(), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", from, err, want)
		}
	}
}
