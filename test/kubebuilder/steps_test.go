package kubebuilder

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// bin has kapok, and assets is the directory for envtest that it creates.
var bin, assets string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if bin, err = os.MkdirTemp("", "kapok-kubebuilder-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(bin)
	assets = filepath.Join(bin, "assets")
	name := "kapok"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "./cmd/kapok")
	build.Dir = root()
	for _, cmd := range []*exec.Cmd{build, exec.Command(filepath.Join(bin, name), "envtest", assets)} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return m.Run(), nil
}

// root returns the directory of Kapok's module.
func root() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

// TestMemcached runs the suite of the second operator.
func TestMemcached(t *testing.T) {
	p := &project{T: t, dir: filepath.Join("testdata", "memcached")}
	p.run(nil, "go", "vet", "./...")
	p.withAssets()
}

// TestSteps changes the CronJob of the tutorial from envtest to virtual time: a step applies the
// files that begin with its number, and then runs the suites.
func TestSteps(t *testing.T) {
	p := &project{T: t, dir: t.TempDir()}
	if err := os.CopyFS(p.dir, os.DirFS(filepath.Join("testdata", "cronjob"))); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(*project)
	}{
		{"1-envtest", func(p *project) {
			p.run(nil, "go", "vet", "./...")
			p.withAssets()
		}},
		{"2-drop-in", func(p *project) {
			if runtime.GOOS == "windows" {
				p.Skip("the recipe of a Makefile wants a shell")
			}
			p.run([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "XDG_CACHE_HOME=" + p.TempDir(), "GOCACHE=" + p.output("go", "env", "GOCACHE")},
				"sh", "-c", p.recipe("test"))
		}},
		{"3-kapoktest", func(p *project) {
			p.run(nil, "go", "mod", "edit", "-require=github.com/kapok-dev/kapok@v0.0.0", "-replace=github.com/kapok-dev/kapok="+root())
			p.test(noPort, "./...")
		}},
		{"4-virtual-time", func(p *project) { p.test(noPort, "./...") }},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			p := &project{T: t, dir: p.dir}
			number, _, _ := strings.Cut(step.name, "-")
			changes, err := filepath.Glob(filepath.Join("steps", number+"-*.diff"))
			if err != nil || len(changes) == 0 && number != "1" {
				t.Fatalf("the changes of this step: %v, %v", changes, err)
			}
			for _, change := range changes {
				if change, err = filepath.Abs(change); err != nil {
					t.Fatal(err)
				}
				p.run(nil, "git", "apply", "--whitespace=nowarn", change)
			}
			step.run(p)
		})
		if !ok {
			t.FailNow() // the next step depends on this one
		}
	}
	t.Run("failures", func(t *testing.T) { (&project{T: t, dir: p.dir}).failures() })
}

// failures checks that Ginkgo's report has the failed specs in the bubble of the last step, with
// their reasons.
func (p *project) failures() {
	spec, err := os.ReadFile(filepath.Join("testdata", "failing", "failing_test.go"))
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "internal", "controller", "failing_test.go"), spec, 0o600); err != nil {
		p.Fatal(err)
	}
	report := filepath.Join(p.TempDir(), "report.xml")
	test := func(focus string) string {
		cmd := p.command(noPort, "go", "test", "-count=1", "-timeout=2m", "-run=TestControllers", "./internal/controller", "-ginkgo.focus="+focus, "-ginkgo.junit-report="+report)
		out, err := cmd.CombinedOutput()
		if err == nil {
			p.Errorf("%s: passes", cmd)
		}
		return string(out)
	}
	out := test("failing ")
	data, err := os.ReadFile(report)
	if err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	var suite struct {
		Specs []struct {
			Name    string `xml:"name,attr"`
			Status  string `xml:"status,attr"`
			Failure struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &suite); err != nil {
		p.Fatal(err)
	}
	got := map[string]string{}
	for _, spec := range suite.Specs {
		got[spec.Name] = spec.Status + ": " + spec.Failure.Message + spec.Failure.Text
	}
	for spec, want := range map[string][]string{
		"method":             {"failed: get ConfigMap default/nothing", "failing_test.go:"},
		"wait":               {"failed: wait for ConfigMap default/nothing", "the object has never existed", "failing_test.go:"},
		"beside":             {"failed: function in Env.Go: beside the spec"},
		"timeout":            {"timedout: A spec timeout occurred", "Context was cancelled"},
		"end of the context": {"timedout: A spec timeout occurred"},
	} {
		for _, want := range want {
			if got := got["[It] failing "+spec]; !strings.Contains(got, want) {
				p.Errorf("spec %q: no %q in\n%s", spec, want, got)
			}
		}
	}
	if out := test("passing "); !strings.Contains(out, "after the specs") {
		p.Errorf("what fails after the last spec is not in\n%s", out)
	}
}

// A project is a module with kubebuilder's layout.
type project struct {
	*testing.T
	dir string
}

// withAssets runs the suites with Kapok's binaries, and also with those in KUBEBUILDER_ASSETS, if
// it is set.
func (p *project) withAssets() {
	p.Helper()
	p.test([]string{"KUBEBUILDER_ASSETS=" + assets}, "./...")
	if others := os.Getenv("KUBEBUILDER_ASSETS"); others != "" {
		p.test([]string{"KUBEBUILDER_ASSETS=" + others}, "./...")
	}
}

// test runs the tests of packages, of which at least one must exist.
func (p *project) test(env []string, packages string) {
	p.Helper()
	if out := p.run(env, "go", "test", "-count=1", packages); !strings.Contains(out, "ok  \t") {
		p.Errorf("no test has run:\n%s", out)
	}
}

// goFlags are for tests of a project: go may add missing lines to go.mod, and managers serve their
// metrics at any port, as 8080 may be in use.
const goFlags = "-mod=mod -ldflags=-X=sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=:0"

// noPort makes managers that serve metrics fail: from step 3 on no manager needs a port.
var noPort = []string{"GOFLAGS=-mod=mod -ldflags=-X=sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=:none"}

// run runs a command in the project, which must succeed, and returns its output. KUBEBUILDER_ASSETS
// is unset, unless env sets it.
func (p *project) run(env []string, name string, args ...string) string {
	p.Helper()
	cmd := p.command(env, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	p.Logf("%s\n%s", cmd, out)
	return string(out)
}

// command returns the command that run runs.
func (p *project) command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(append(os.Environ(), "KUBEBUILDER_ASSETS=", "GOWORK=off", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+goFlags)), env...)
	return cmd
}

func (p *project) output(name string, args ...string) string {
	p.Helper()
	return strings.TrimSpace(p.run(nil, name, args...))
}

// release is the command with which users run Kapok without installing it; here it is replaced by
// the binary that TestMain has built.
const release = "go run github.com/kapok-dev/kapok/cmd/kapok@latest"

var shellOfMake = regexp.MustCompile(`\$\(shell ([^()]*)\)`)

// recipe returns the only line of a target in the Makefile that runs tests. (Its dependencies
// generate and check files; make may not be installed.)
func (p *project) recipe(target string) string {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "Makefile"))
	if err != nil {
		p.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "\n"+target+":")
	_, rest, _ = strings.Cut(rest, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.HasPrefix(line, "\t") {
		p.Fatalf("the Makefile has no recipe for %s", target)
	}
	if !strings.Contains(line, release+" envtest path") {
		p.Fatalf("the recipe does not have Kapok for envtest: %s", line)
	}
	line = strings.Replace(line, release, "kapok", 1)
	line = shellOfMake.ReplaceAllString(strings.TrimSpace(line), "$$($1)")
	return strings.ReplaceAll(line, "$$", "$")
}
