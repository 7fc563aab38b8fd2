package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/generate"
)

// TestUpgrade merges the scaffolds of this version into a project of kubebuilder, which lies in a
// directory of its repository. The project has changes of its own.
func TestUpgrade(t *testing.T) {
	p := newProject(t)
	kubebuilder := filepath.Join(p.temp, "kubebuilder")
	if out, err := exec.Command("go", "build", "-o", kubebuilder, "sigs.k8s.io/kubebuilder/v4").CombinedOutput(); err != nil {
		t.Fatalf("build kubebuilder: %v\n%s", err, out)
	}
	repository := p.dir
	p.dir = filepath.Join(repository, "operators", "guestbook")
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	shell := func(name string, args ...string) string {
		t.Helper()
		code, out := p.command(append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
			"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com"), name, args...)
		if code != 0 {
			t.Fatalf("%s %s: exit code %d\n%s", name, strings.Join(args, " "), code, out)
		}
		return out
	}
	commit := func() {
		t.Helper()
		shell("git", "add", "--all", repository)
		shell("git", "commit", "--quiet", "--message=change")
	}
	refuse := func(line, want string) {
		t.Helper()
		before := p.state()
		if code, out := p.run(line); code != 1 || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
		if changed := changes(before, p.state()); len(changed) > 0 {
			t.Errorf("kapok %s changed %v", line, changed)
		}
	}

	refuse("upgrade", "the project must be in a repository of git")
	shell(kubebuilder, "init", "--domain=example.com", "--repo=example.com/guestbook")
	shell(kubebuilder, "create", "api", "--group=webapp", "--version=v1", "--kind=Guestbook", "--resource", "--controller", "--make=false")
	shell("git", "init", "--quiet", repository)
	refuse("upgrade", "the repository has no commit")
	commit()
	p.write("Dockerfile", strings.Replace(p.read("Dockerfile"), "FROM ", "# Mine\nFROM ", 1))
	refuse("upgrade", "the work tree is not clean")
	if err := os.Remove(filepath.Join(p.dir, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "NOTES"), []byte("of another project\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	commit()
	nothing, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	shell("git", "update-ref", "MERGE_HEAD", "HEAD")
	refuse("upgrade", "git has not finished something else (MERGE_HEAD)")
	shell("git", "update-ref", "-d", "MERGE_HEAD")
	for line, want := range map[string]string{
		"upgrade --from kubebuilder":         "want kubebuilder@VERSION, kapok@VERSION or the path of such a program",
		"upgrade --from operator-sdk@v1.0.0": "want kubebuilder@VERSION, kapok@VERSION or the path of such a program",
		"upgrade --from kubebuilder@4":       "the version must be like v1.2.3",
		"upgrade --from kubebuilder@v4.99.0": "build kubebuilder@v4.99.0",
		"upgrade --from " + os.TempDir():     "not a program",
		"upgrade --from " + nothing:          "has scaffolded no project: PROJECT is missing",
		"upgrade extra":                      `unexpected argument "extra"`,
		"upgrade --to v2":                    "unknown flag: --to",
	} {
		refuse(line, want)
	}

	t.Run("clean", func(t *testing.T) {
		out := p.must("upgrade --from " + kubebuilder)
		for _, want := range []string{"M\toperators/guestbook/internal/controller/suite_test.go\n", "api/v1/zz_generated.deepcopy.go\n", "The project has the scaffolds of this version."} {
			if !strings.Contains(out, want) {
				t.Errorf("it says\n%s\nwant %q", out, want)
			}
		}
		if !strings.Contains(p.read("internal/controller/suite_test.go"), "kapoktest.Start") || !strings.Contains(p.read("Dockerfile"), "# Mine\nFROM ") {
			t.Errorf("suite_test.go and Dockerfile are\n%s\n%s", p.read("internal/controller/suite_test.go"), p.read("Dockerfile"))
		}
		if status := shell("git", "status", "--porcelain", "--", "AGENTS.md", repository+"/NOTES"); status != "" {
			t.Errorf("the removed file and that of another project changed: %s", status)
		}
		p.tool("test", "./internal/...")
		commit()
		if text := p.read("PROJECT"); !strings.Contains(text, "cliVersion: "+strings.TrimPrefix(generate.VersionOf("sigs.k8s.io/kubebuilder/v4"), "v")+"\n") {
			t.Errorf("PROJECT does not have the version of the scaffolds:\n%s", text)
		}
		refuse("upgrade", "PROJECT does not tell which version has made the project")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if out := p.must("upgrade --from " + self); !strings.Contains(out, "The scaffolds have not changed.") {
			t.Errorf("the same version again:\n%s", out)
		}
		if status := shell("git", "status", "--porcelain"); status != "" {
			t.Errorf("the same version again changed\n%s", status)
		}
	})

	t.Run("conflict", func(t *testing.T) {
		shell("git", "reset", "--quiet", "--hard", "HEAD~1")
		p.write("Makefile", strings.Replace(p.read("Makefile"), "test: manifests generate fmt vet setup-envtest", "test: fmt setup-envtest", 1))
		commit()
		code, out := p.run("upgrade --from " + kubebuilder)
		if code != 1 || !strings.Contains(out, "Conflicts:\n  operators/guestbook/Makefile\n") || !strings.Contains(out, "resolve them, then run git add, go mod tidy and kapok generate") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		if status := shell("git", "status", "--porcelain", "Makefile"); status != "UU Makefile\n" && status != "UU operators/guestbook/Makefile\n" {
			t.Errorf("git status says %q", status)
		}
		if text := p.read("Makefile"); !strings.Contains(text, "<<<<<<< HEAD\n") || !strings.Contains(text, ">>>>>>> kapok upgrade\n") {
			t.Errorf("the Makefile has no conflict:\n%s", text)
		}
		refuse("upgrade --from "+kubebuilder, "the work tree is not clean")
	})
}
