package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// TestFramework makes a project on Kapok's framework, and goes on with it.
func TestFramework(t *testing.T) {
	t.Setenv(front.Self, program(t))
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook --framework kapok")
	p.must("create api --group webapp --version v1 --kind Guestbook")
	one := p.sources()
	p.must("create webhook --group webapp --version v1 --kind Guestbook --defaulting --programmatic-validation")
	if mod := p.read("go.mod"); strings.Contains(mod, "controller-runtime") {
		t.Errorf("go.mod is\n%s", mod)
	}
	if text := p.read("cmd/main.go"); !strings.Contains(text, "\tctrl.RegisterFlags(nil)\n\tflag.Parse()\n") || strings.Contains(text, `"sigs.k8s.io/controller-runtime`) {
		t.Errorf("main.go is\n%s", text)
	}
	p.tool("vet", "./...")
	p.tool("test", "./internal/...")
	p.must("delete webhook --group webapp --version v1 --kind Guestbook")
	p.same(one, "create webhook")

	for line, want := range map[string]string{
		"edit --framework controller-runtime": "there is no way back",
		"edit --framework other":              `--framework "other": must be controller-runtime or kapok`,
		"edit --test-env envtest":             "its tests run on kapoktest, not on envtest",
	} {
		if code, out := p.run(line); code == 0 || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
	}
}

// TestMoveToFramework moves a project to Kapok's framework.
func TestMoveToFramework(t *testing.T) {
	t.Setenv(front.Self, filepath.Join(t.TempDir(), "absent"))
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook")
	before := p.state()
	if code, out := p.run("edit --framework kapok"); code == 0 || !strings.Contains(out, "kapok port: ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for name, hash := range p.state() {
		if before[name] != hash {
			t.Errorf("%s has changed", name)
		}
	}
}
