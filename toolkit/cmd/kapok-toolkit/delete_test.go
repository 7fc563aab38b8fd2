package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDelete adds kinds and webhooks to a project and deletes them again: then all files are what
// they were.
func TestDelete(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook")
	empty := p.sources()
	p.must("create api --group webapp --version v1 --kind Guestbook")
	one := p.sources()
	for _, c := range []struct{ create, remove []string }{
		{
			[]string{"create api --group webapp --version v1 --kind Author"},
			[]string{"delete api --group webapp --version v1 --kind Author"},
		},
		{
			[]string{"create webhook --group webapp --version v1 --kind Guestbook --defaulting --programmatic-validation"},
			[]string{"delete webhook --group webapp --version v1 --kind Guestbook"},
		},
		{
			[]string{
				"create api --group webapp --version v2 --kind Guestbook",
				"create webhook --group webapp --version v1 --kind Guestbook --conversion --spoke v2",
			},
			[]string{
				"delete webhook --group webapp --version v1 --kind Guestbook",
				"delete api --group webapp --version v2 --kind Guestbook",
			},
		},
		{
			[]string{
				"create api --group webapp --version v2 --kind Guestbook",
				"create webhook --group webapp --version v1 --kind Guestbook --conversion --spoke v2",
				"create webhook --group webapp --version v2 --kind Guestbook --defaulting",
			},
			[]string{
				"delete webhook --group webapp --version v1 --kind Guestbook",
				"delete api --group webapp --version v2 --kind Guestbook",
			},
		},
	} {
		for _, line := range append(c.create, c.remove...) {
			p.must(line)
		}
		p.same(one, strings.Join(c.create, "; "))
	}
	p.must("delete api --group webapp --version v1 --kind Guestbook")
	p.same(empty, "create api")
}

// sources returns the hashes of the files of the project, without go.mod and go.sum: what is not
// needed any more stays there until go mod tidy.
func (p *project) sources() map[string]string {
	all := p.state()
	delete(all, filepath.Join(p.dir, "go.mod"))
	delete(all, filepath.Join(p.dir, "go.sum"))
	return all
}

func (p *project) same(want map[string]string, after string) {
	p.Helper()
	got := p.sources()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == "" {
			p.Errorf("after %s: %s is gone", after, name)
		} else if got[name] != want[name] {
			p.Errorf("after %s: %s differs:\n%s", after, name, p.read(strings.TrimPrefix(name, p.dir+"/")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			p.Errorf("after %s: %s is left", after, name)
		}
	}
}

// TestDeleteKeepsChanges checks that kapok delete removes nothing that was edited, and keeps edits
// beside what it removes.
func TestDeleteKeepsChanges(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook")
	p.must("create api --group webapp --version v1 --kind Guestbook")
	p.write("cmd/main.go", strings.Replace(p.read("cmd/main.go"), "func main() {\n", "func main() {\n\tprintln(\"mine\")\n", 1))
	p.write("internal/controller/guestbook_controller.go", p.read("internal/controller/guestbook_controller.go")+"\n// Mine.\n")
	before := p.state()
	for line, want := range map[string]string{
		"delete":      "",
		"delete kind": "want kapok delete api or kapok delete webhook",
		"delete api":  "--group, --version and --kind are required",
		"delete api --group webapp --version v2 --kind Guestbook":        "the project has no such kind, but:\n  --group webapp --version v1 --kind Guestbook",
		"delete webhook --group webapp --version v1 --kind Guestbook":    "webapp/v1 Guestbook has no webhooks",
		"delete api --group webapp --version v1 --kind Guestbook":        "these files have changes of yours. To remove them nevertheless, use --force:\n  internal/controller/guestbook_controller.go",
		"delete api --group webapp --version v1 --kind Guestbook --nope": "unknown flag: --nope",
		"delete api extra --group webapp --version v1 --kind Guestbook":  "want kapok delete api or kapok delete webhook",
		"delete api --help": "",
		"delete api --group  webapp --version v1 --kind Guestbook --help": "",
	} {
		code, out := p.run(line)
		if (code == 0) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
	}
	if after := p.state(); !maps.Equal(before, after) {
		t.Error("a command that fails has changed files")
	}
	p.must("delete api --group webapp --version v1 --kind Guestbook --force")
	if main := p.read("cmd/main.go"); !strings.Contains(main, `println("mine")`) || strings.Contains(main, "Guestbook") {
		t.Errorf("main.go is\n%s", main)
	}
	p.must("create api --group webapp --version v1 --kind Guestbook")
}
