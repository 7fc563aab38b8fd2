package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelm makes a chart without make and kustomize, and applies the manifests of the project to a
// server.
func TestHelm(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook")
	p.must("create api --group webapp --version v1 --kind Guestbook")
	path := os.Getenv("PATH")
	t.Setenv("PATH", goOnly(t))
	p.must("edit --plugins=helm/v2-alpha")
	if text := p.read("PROJECT"); !strings.Contains(text, "    manifests: dist/install.yaml\n    output: dist\n") {
		t.Errorf("PROJECT is\n%s", text)
	}
	if text := p.read("dist/chart/templates/manager/manager.yaml"); !strings.Contains(text, ".Values.manager.") {
		t.Errorf("the Deployment of the chart is\n%s", text)
	}
	before := p.state()
	p.must("edit --plugins=helm/v2-alpha")
	if changed := changes(before, p.state()); len(changed) > 0 {
		t.Errorf("a second run changes %v", changed)
	}

	// Manifests that kustomize cannot build leave all as it was.
	const kustomization = "config/default/kustomization.yaml"
	text := p.read(kustomization)
	p.write(kustomization, text+"- nothing\n")
	before = p.state()
	if code, out := p.run("edit --plugins=helm/v2-alpha --force"); code != 1 || !strings.Contains(out, "config/default") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if changed := changes(before, p.state()); len(changed) > 0 {
		t.Errorf("after an error, %v have changed", changed)
	}

	p.write(kustomization, text)

	t.Setenv("PATH", path)
	kubectl := p.server()
	code, out := kubectl("apply", "--server-side", "-f", "dist/install.yaml")
	if code != 0 || !strings.Contains(out, "customresourcedefinition.apiextensions.k8s.io/guestbooks.webapp.example.com serverside-applied") ||
		!strings.Contains(out, "-controller-manager serverside-applied") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// goOnly returns a PATH with nothing but Go and git.
func goOnly(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go", "gofmt", "git"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
