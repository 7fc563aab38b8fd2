package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlphaGenerate scaffolds a project again from its PROJECT file. As it has no code of its own,
// the result is the same.
func TestAlphaGenerate(t *testing.T) {
	p := newProject(t)
	for _, line := range []string{
		"init --domain example.com --repo example.com/guestbook --namespaced --multigroup",
		"create api --group batch --version v1 --kind CronJob --plural=crons",
		"create api --group batch --version v2 --kind CronJob --plural=crons",
		"create api --group cache --version v1alpha1 --kind Memcached --image=memcached:1.6-alpine --image-container-port=11211 --plugins=deploy-image/v1-alpha",
		"create api --group apps --version v1 --kind Deployment --resource=false --controller",
		"create webhook --group batch --version v1 --kind CronJob --plural=crons --defaulting --programmatic-validation --conversion --spoke v2",
		"edit --plugins=grafana/v1-alpha",
		"edit --plugins=helm/v2-alpha --output-dir=charts",
	} {
		p.must(line)
	}
	file := p.read("PROJECT")

	// The layout of old projects.
	p.write("PROJECT", strings.Replace(file, "go.kubebuilder.io/v4", "go.kubebuilder.io/v3", 1))
	if code, out := p.run("create api --group batch --version v3 --kind CronJob"); code == 0 || !strings.Contains(out, "kapok alpha generate scaffolds it again") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	made := filepath.Join(p.temp, "made")
	out := p.must("alpha generate --output-dir " + made)
	if want := "kapok create api --group=cache --version=v1alpha1 --kind=Memcached " +
		"--plugins=deploy-image.go.kubebuilder.io/v1-alpha --image=memcached:1.6-alpine --image-container-port=11211\n"; !strings.Contains(out, want) {
		t.Errorf("it says\n%s\nwant\n%s", out, want)
	}
	p.write("PROJECT", file)
	want, got := p.state(), (&project{t, made, p.temp}).state()
	for name, hash := range want {
		if rel := strings.TrimPrefix(name, p.dir); got[made+rel] != hash {
			t.Errorf("%s differs, or is missing", rel)
		}
	}
	for name := range got {
		if rel := strings.TrimPrefix(name, made); want[p.dir+rel] == "" {
			t.Errorf("%s is new", rel)
		}
	}

	foreign := filepath.Join(p.temp, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Replace(file, "go.kubebuilder.io/v4", "helm.sdk.operatorframework.io/v1", 1): "PROJECT has the layout helm.sdk.operatorframework.io/v1",
		strings.Replace(file, "repo: ", "# ", 1):                                             "PROJECT has no repo",
		"version: \"2\"\n":                                                                   "read ",
	} {
		if err := os.WriteFile(filepath.Join(foreign, "PROJECT"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out := p.run("alpha generate --input-dir " + foreign + " --output-dir " + p.temp + "/other"); code == 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d\n%s\nwant %q", code, out, want)
		}
	}
	for _, line := range []string{"alpha --help", "alpha", "alpha generate --help"} {
		if out := p.must(line); !strings.Contains(out, "kapok alpha generate --output-dir DIRECTORY") {
			t.Errorf("kapok %s says\n%s", line, out)
		}
	}
	for line, want := range map[string]string{
		"alpha generate":                      "the project must be in a repository of git",
		"alpha generate --input-dir .":        "--input-dir needs --output-dir",
		"alpha generate --output-dir " + made: "is not empty",
		"alpha generate --input-dir nowhere --output-dir " + p.temp + "/other": "read the project",
		"alpha generate --output-dir " + p.temp + "/other extra":               `unexpected argument "extra"`,
		"alpha update": `unknown command "update"`,
	} {
		if code, out := p.run(line); code == 0 || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
	}
}

// TestAlphaGenerateHere scaffolds a project again in its own directory, which is a part of a
// repository.
func TestAlphaGenerateHere(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/guestbook")
	p.must("create api --group batch --version v1 --kind CronJob --resource --controller")
	scaffolded := p.state()
	top := filepath.Dir(p.dir)
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", top, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	git("init", "--quiet")
	own := filepath.Join(p.dir, "internal", "own", "deep", "own.go")
	beside := filepath.Join(top, "beside.txt")
	ignored := filepath.Join(p.dir, "bin", "tool")
	for _, file := range []string{own, beside, ignored} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("package own\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.write("README.md", "mine\n")
	if code, out := p.run("alpha generate"); code == 0 || !strings.Contains(out, "the repository has no commit") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	git("add", "--all", p.dir, beside)
	git("commit", "--quiet", "--message=mine")
	p.write("NOTES", "")
	before := p.state()
	if code, out := p.run("alpha generate"); code == 0 || !strings.Contains(out, "NOTES") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if !maps.Equal(p.state(), before) {
		t.Error("a command that fails has changed the project")
	}
	if err := os.Remove(filepath.Join(p.dir, "NOTES")); err != nil {
		t.Fatal(err)
	}

	// No commit has a file that is ignored, so that nothing could bring it back.
	exclude := filepath.Join(top, ".git", "info", "exclude")
	if err := os.WriteFile(exclude, []byte("Makefile\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("rm", "--quiet", "--cached", filepath.Join(p.dir, "Makefile"))
	git("commit", "--quiet", "--message=without it")
	before = p.state()
	if code, out := p.run("alpha generate"); code == 0 || !strings.Contains(out, "git ignores") || !strings.Contains(out, "Makefile") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if !maps.Equal(p.state(), before) {
		t.Error("a command that fails has changed the project")
	}
	git("reset", "--quiet", "--hard", "HEAD~")
	if out := p.must("alpha generate"); !strings.Contains(out, "git reset --hard takes them back") {
		t.Errorf("it says\n%s", out)
	}
	got := p.state()
	for name, hash := range scaffolded {
		if got[name] != hash {
			t.Errorf("%s differs, or is missing", name)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "internal", "own")); !os.IsNotExist(err) {
		t.Errorf("code of the user: %v", err)
	}
	for _, file := range []string{beside, ignored} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("a file that is not one of the project: %v", err)
		}
	}
	git("reset", "--quiet", "--hard")
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}
