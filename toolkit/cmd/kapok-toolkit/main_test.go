package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/toolkit/generate"
)

// asCommand is set in the environment of the test binary where it runs as kapok-toolkit.
const asCommand = "KAPOK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	code := m.Run()
	if programs != "" {
		os.RemoveAll(programs)
	}
	os.Exit(code)
}

// programs is the directory for the program kapok, "" before it is built.
var programs string

// build builds kapok once.
var build = sync.OnceValues(func() (path string, err error) {
	if programs, err = os.MkdirTemp("", "kapok-toolkit-test-"); err != nil {
		return "", err
	}
	path = filepath.Join(programs, "kapok")
	if out, err := exec.Command("go", "build", "-C", "../../..", "-o", path, "./cmd/kapok").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kapok: %w\n%s", err, out)
	}
	return path, nil
})

// program returns the path of kapok.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// server runs kapok up until the end of the test, and returns a function that runs kubectl with it.
func (p *project) server() (kubectl func(args ...string) (code int, out string)) {
	p.Helper()
	kapok, kubeconfig := program(p.T), filepath.Join(p.T.TempDir(), "kubeconfig")
	server := exec.CommandContext(p.Context(), kapok, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig", kubeconfig)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.Stdout, server.Stderr = p.Output(), p.Output()
	if err := server.Start(); err != nil {
		p.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	p.Cleanup(func() { <-ended }) // after the context of the test has ended
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			p.Fatalf("the server has ended: %v", err)
		}
	}
	return func(args ...string) (int, string) {
		p.Helper()
		return p.command(append(os.Environ(), "KUBECONFIG="+kubeconfig), kapok, append([]string{"kubectl"}, args...)...)
	}
}

// A project is a directory in which a test runs commands.
type project struct {
	*testing.T
	dir, temp string
}

// newProject makes an empty directory with a name for a project.
func newProject(t *testing.T) *project {
	dir := filepath.Join(t.TempDir(), "guestbook")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &project{t, dir, t.TempDir()}
}

// run executes a command line of the toolkit, whose words are separated by single blanks, and
// returns its exit code and what it prints.
func (p *project) run(line string) (code int, out string) {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		p.Fatal(err)
	}
	return p.command(append(os.Environ(), asCommand+"=1", "KAPOK_SOURCE="+root, "TMPDIR="+p.temp), self, strings.Split(line, " ")...)
}

func (p *project) command(env []string, name string, args ...string) (code int, out string) {
	p.Helper()
	c := exec.CommandContext(p.Context(), name, args...)
	c.Dir, c.Env = p.dir, env
	said, err := c.CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		p.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(said)
}

// must executes a command line that has to succeed.
func (p *project) must(line string) string {
	p.Helper()
	code, out := p.run(line)
	if code != 0 {
		p.Fatalf("kapok %s: exit code %d\n%s", line, code, out)
	}
	return out
}

// tool executes a command of Go in the project.
func (p *project) tool(args ...string) {
	p.Helper()
	if code, out := p.command(os.Environ(), "go", args...); code != 0 {
		p.Fatalf("go %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
}

func (p *project) read(name string) string {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.Fatal(err)
	}
	return string(data)
}

func (p *project) write(name, data string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(data), 0o644); err != nil {
		p.Fatal(err)
	}
}

// writable lets the files of the project be written: those of Go's module cache cannot.
func (p *project) writable() {
	p.Helper()
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o200)
	})
	if err != nil {
		p.Fatal(err)
	}
}

// state returns a hash for each file.
func (p *project) state() map[string]string {
	p.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = "directory"
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return all
}

// changes returns the files that differ between two states.
func changes(before, after map[string]string) []string {
	var names []string
	for name := range before {
		if after[name] != before[name] {
			names = append(names, name)
		}
	}
	for name := range after {
		if _, known := before[name]; !known {
			names = append(names, name)
		}
	}
	return names
}

// TestTutorial types the commands of the kubebuilder tutorial (rows K1 to K13 and W1 of the
// documents), and checks after each of them that the project compiles and that its tests pass.
func TestTutorial(t *testing.T) {
	p := newProject(t)
	p.must("init --domain tutorial.kubebuilder.io --repo tutorial.kubebuilder.io/project")
	for _, want := range []string{"domain: tutorial.kubebuilder.io", "- go.kubebuilder.io/v4", "repo: tutorial.kubebuilder.io/project", `version: "3"`} {
		if text := p.read("PROJECT"); !strings.Contains(text, want) {
			t.Errorf("PROJECT lacks %q:\n%s", want, text)
		}
	}
	if text := p.read("cmd/main.go"); !strings.Contains(text, `"80807133.tutorial.kubebuilder.io"`) {
		t.Error("the leader election ID is not that of kubebuilder")
	}
	if text := p.read("PROJECT"); !strings.Contains(text, "cliVersion: 4.") {
		t.Errorf("PROJECT does not have the version of kubebuilder's scaffolds:\n%s", text)
	}
	if text := p.read("README.md"); strings.Contains(text, "go version v") || !strings.Contains(text, "\ngo test ./internal/...\nkapok dev\n") {
		t.Errorf("the README is\n%s", text)
	}
	if text := p.read("Makefile"); strings.Contains(text, "KUBEBUILDER_ASSETS=") || !strings.Contains(text, "\ntest: manifests generate fmt vet ## Run tests.\n\tgo test $$(go list ./... | grep -v /e2e) -coverprofile cover.out\n") {
		t.Error("the target test of the Makefile starts programs")
	}

	p.must("create api --group batch --version v1 --kind CronJob")
	for _, name := range []string{"api/v1/zz_generated.deepcopy.go", "config/crd/bases/batch.tutorial.kubebuilder.io_cronjobs.yaml", "config/rbac/role.yaml", "internal/controller/cronjob_controller.go", "internal/controller/cronjob_time_test.go"} {
		p.read(name)
	}
	p.must("create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation")
	p.read("config/webhook/manifests.yaml")
	p.tool("vet", "./...")
	p.tool("test", "./internal/...")
	for _, name := range []string{"TestCronJobInVirtualTime", "TestCronJobWithFaults"} {
		if code, out := p.command(os.Environ(), "go", "test", "-count=1", "-v", "-run", name, "./internal/controller"); code != 0 || !strings.Contains(out, "--- PASS: "+name+" (") {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
	// The object of these tests may need more fields.
	types := p.read("api/v1/cronjob_types.go")
	p.write("api/v1/cronjob_types.go", strings.Replace(types, "\tFoo *string `json:\"foo,omitempty\"`", "\tFoo *string `json:\"foo,omitempty\"`\n\n\t// +kubebuilder:validation:MinLength=1\n\tBar string `json:\"bar\"`", 1))
	p.must("generate")
	if code, out := p.command(os.Environ(), "go", "test", "-count=1", "-v", "-run", "TestCronJob", "./internal/controller"); code != 0 || !strings.Contains(out, "--- SKIP: TestCronJobWithFaults") || !strings.Contains(out, "the object of this test needs more: CronJob.batch") {
		t.Errorf("with a required field: exit code %d\n%s", code, out)
	}
	p.write("api/v1/cronjob_types.go", types)
	p.must("generate")

	out := p.must("create api --group batch --version v2 --kind CronJob")
	if !strings.Contains(out, "api/v1/cronjob_types.go: objects are stored in this version") {
		t.Errorf("it says\n%s", out)
	}
	p.must("create webhook --group batch --version v1 --kind CronJob --conversion --spoke v2")
	p.must("edit --multigroup=true")
	p.must("create api --group apps --version v1alpha1 --kind Frigate --namespaced=false")
	p.tool("vet", "./...")
	p.tool("test", "./internal/...")
	if code, out := p.run("generate --check"); code != 0 {
		t.Errorf("generated files are not current in a new project: exit code %d\n%s", code, out)
	}
}

// TestNothingHalfDone checks that commands that fail report an error and leave the project as it
// was.
func TestNothingHalfDone(t *testing.T) {
	p := newProject(t)
	for _, tc := range []struct{ line, want string }{
		{"create api --group batch --version v1 --kind CronJob", "project must be initialized"},
		{"generate", "this directory has no PROJECT"},
		{"generate object", "go.mod file not found"},
		{"init --domain example.com --project-name 001 --repo example.com/x", "--project-name \"001\": must not be a number"},
		{"init --domain Example_com --repo example.com/x", `--domain "Example_com": a lowercase RFC 1123 subdomain`},
		{"init --domain example.com --repo example.com/x|y", `--repo "example.com/x|y": must be the path of a Go module`},
		{"init --domain example.com", "belongs to no module: name the one of the project, as --repo example.com/project"},
		{"generate nonsense", `unknown option "nonsense"`},
		{"generate --nonsense", "unknown flag --nonsense"},
		{"nonsense", "want one of the commands"},
	} {
		before := p.state()
		code, out := p.run(tc.line)
		if code == 0 || !strings.Contains(out, tc.want) || strings.Contains(out, "Usage:") || strings.Count(out, "\n") > 3 {
			t.Errorf("kapok %s: exit code %d\n%s", tc.line, code, out)
		}
		if changed := changes(before, p.state()); len(changed) > 0 {
			t.Errorf("kapok %s has changed %v", tc.line, changed)
		}
	}
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group batch --version v1 --kind CronJob")
	types := p.read("api/v1/cronjob_types.go")
	field := func(marker, line string) string {
		return strings.Replace(types, "\tFoo *string `json:\"foo,omitempty\"`", marker+"\t"+line, 1)
	}
	for _, tc := range []struct{ types, line, want string }{
		{types, "init --domain example.com", "already initialized"},
		{types, "create api --group batch --version v1 --kind CronJob", "already exists"},
		{types, "create api --group Batch --version v1 --kind Job", "lower case alphanumeric"},
		{types, "create api --group batch --version v1 --kind job", "must start with an uppercase character"},
		{types, "create api --group batch --version v1 --kind My-Job", `--kind "My-Job": must be a name in Go`},
		{types, "create api --group batch --version 1 --kind Job", `--version "1": must be like v1, v1beta1 or v2alpha1`},
		{types, "create webhook --group batch --version v1 --kind CronJob --conversion --spoke v2", `invalid spoke version "v2"`},
		{types, "init --test-env=cluster --domain example.com", "already initialized"},
		{types, "edit --test-env=cluster", `--test-env "cluster": must be kapoktest or envtest`},
		{field("\t// +kubebuilder:validation:MinLenght=1\n", "Foo *string `json:\"foo,omitempty\"`"), "generate",
			"api/v1/cronjob_types.go:36:2: unknown marker +kubebuilder:validation:MinLenght (did you mean +kubebuilder:validation:MinLength?)"},
		{field("\t// +kubebuilder:validation:MinLength=a\n", "Foo *string `json:\"foo,omitempty\"`"), "generate", `api/v1/cronjob_types.go:36:2: +kubebuilder:validation:MinLength: expected integer, got "a"` + "\n\t+kubebuilder:validation:MinLength: specifies the minimum length for this string\n"},
		{field("\t// +kubebuilder:validation:MinLength=1\n", "Foo *int32 `json:\"foo,omitempty\"`"), "generate", "api/v1/cronjob_types.go:36:2: +kubebuilder:validation:MinLength: must apply minlength to a textual value"},
		{field("\t// +listTyp=map\n", "Foo *string `json:\"foo,omitempty\"`"), "generate", "api/v1/cronjob_types.go:36:2: unknown marker +listTyp (did you mean +listType?)"},
		{field("\t// +k8s:optionl\n", "Foo *string `json:\"foo,omitempty\"`"), "generate", "api/v1/cronjob_types.go:36:2: unknown marker +k8s:optionl (did you mean +k8s:optional?)"},
		{field("", "Foo *string"), "generate", `api/v1/cronjob_types.go:36:2: encountered struct field "Foo" without JSON tag`},
		{field("", "Foo float64 `json:\"foo\"`"), "generate", "api/v1/cronjob_types.go:36:6: found float"},
		{types + "func {", "generate", "api/v1/cronjob_types.go:97:6: expected 'IDENT', found '{'"},
		// A command that has written files by the time it meets the error.
		{field("\t// +kubebuilder:validation:MinLenght=1\n", "Foo *string `json:\"foo,omitempty\"`"), "create api --group batch --version v1 --kind Job", "The project is as it was before. The files of this attempt are in " + p.temp},
	} {
		p.write("api/v1/cronjob_types.go", tc.types)
		before := p.state()
		code, out := p.run(tc.line)
		if code == 0 || !strings.Contains(out, tc.want) || strings.Contains(out, "Usage:") || strings.Contains(out, "<input>") || strings.Contains(out, "unable to") {
			t.Errorf("kapok %s: exit code %d, want %q\n%s", tc.line, code, tc.want, out)
		}
		if changed := changes(before, p.state()); len(changed) > 0 {
			t.Errorf("kapok %s has changed %v", tc.line, changed)
		}
	}
}

// TestOneErrorEach checks that a mistake has one error, without those that only follow from it.
func TestOneErrorEach(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group batch --version v1 --kind CronJob --controller=false")
	types := p.read("api/v1/cronjob_types.go")
	for field, want := range map[string]string{
		"\t// +kubebuilder:validation:Minimum=1\n\tFoo float64 `json:\"foo\"`": "api/v1/cronjob_types.go:37:6: found float",
		"\tFoo Missing `json:\"foo\"`":                                         "api/v1/cronjob_types.go:36:6: unknown type Missing",
		"\tFoo func() `json:\"foo\"`":                                          "api/v1/cronjob_types.go:36:6: a function cannot be a field",
	} {
		p.write("api/v1/cronjob_types.go", strings.Replace(types, "\tFoo *string `json:\"foo,omitempty\"`", field, 1))
		if code, out := p.run("generate"); code != 1 || !strings.HasPrefix(out, "kapok: "+want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d\n%s", field, code, out)
		}
	}
}

// TestUnknownMarkers checks that markers of other programs can be allowed.
func TestUnknownMarkers(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group batch --version v1 --kind CronJob --controller=false")
	const types = "api/v1/cronjob_types.go"
	p.write(types, strings.Replace(p.read(types), "\tFoo *string", "\t// +kubebuilder:validation:OneOf=a\n\tBar string `json:\"bar\"`\n\tFoo *string", 1))
	const want = "kapok: api/v1/cronjob_types.go:36:2: unknown marker +kubebuilder:validation:OneOf (did you mean +kubebuilder:validation:AtLeastOneOf?)\n"
	before := p.state()
	if code, out := p.run("generate"); code != 1 || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if changed := changes(before, p.state()); len(changed) > 0 {
		t.Errorf("%v have changed", changed)
	}
	for range 2 { // the second one has nothing to do
		if out := p.must("generate --allow-unknown-markers"); !strings.Contains(out, want) {
			t.Errorf("the warning is missing:\n%s", out)
		}
	}
	if code, _ := p.run("generate"); code != 1 {
		t.Errorf("unknown markers are allowed without the flag: exit code %d", code)
	}
}

// TestGoGenerate generates code by the go command, in the directory of main.go.
func TestGoGenerate(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group batch --version v1 --kind CronJob --controller=false")
	const generated = "config/crd/bases/batch.example.com_cronjobs.yaml"
	was := p.read(generated)
	p.write(generated, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "kapok")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(asCommand, "1")
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	p.tool("generate", "./...")
	if p.read(generated) != was {
		t.Errorf("go generate has not written %s", generated)
	}
}

// TestDeployImage makes an API whose controller runs an image.
func TestDeployImage(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group cache --version v1alpha1 --kind Memcached --image=memcached:1.6-alpine --image-container-port=11211 --plugins=deploy-image/v1-alpha")
	if text := p.read("PROJECT"); !strings.Contains(text, "deploy-image.go.kubebuilder.io/v1-alpha:") {
		t.Errorf("PROJECT:\n%s", text)
	}
	p.tool("vet", "./...")
	p.tool("test", "./internal/...")
	if code, out := p.run("generate --check"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestEnvtest makes a project whose suites are those of kubebuilder.
func TestEnvtest(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project --test-env envtest --fetch-deps=false")
	if text := p.read("PROJECT"); !strings.Contains(text, "kapok.dev/v1:\n    testEnv: envtest\n") {
		t.Errorf("PROJECT:\n%s", text)
	}
	if text := p.read("Makefile"); !strings.Contains(text, "KUBEBUILDER_ASSETS=") {
		t.Error("the Makefile is not that of kubebuilder")
	}
	p.must("create api --group batch --version v1 --kind CronJob")
	if text := p.read("internal/controller/suite_test.go"); strings.Contains(text, "kapoktest") || !strings.Contains(text, "envtest.Environment") {
		t.Errorf("the suite is not that of kubebuilder:\n%s", text)
	}
	if text := p.read("go.mod"); strings.Contains(text, "kapok") {
		t.Errorf("go.mod:\n%s", text)
	}
	p.must("edit --test-env kapoktest")
	if text := p.read("PROJECT"); strings.Contains(text, "testEnv: envtest") {
		t.Errorf("PROJECT after the change back:\n%s", text)
	}
}

// TestAsControllerGen compares what kapok generate writes with the files of controller-gen.
func TestAsControllerGen(t *testing.T) {
	p := newProject(t)
	p.must("init --domain example.com --repo example.com/project")
	p.must("create api --group batch --version v1 --kind CronJob")
	p.must("create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation")
	const crd = "config/crd/bases/batch.example.com_cronjobs.yaml"
	after := p.state()
	for _, name := range []string{"api/v1/zz_generated.deepcopy.go", "config/crd/bases/batch.example.com_cronjobs.yaml", "config/rbac/role.yaml", "config/webhook/manifests.yaml"} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tool := filepath.Join(t.TempDir(), "controller-gen")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "sigs.k8s.io/controller-tools/cmd/controller-gen")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The calls of the Makefile.
	// A user of make gets the same files.
	version := "CONTROLLER_TOOLS_VERSION ?= " + generate.VersionOf("sigs.k8s.io/controller-tools") + "\n"
	if !strings.Contains(p.read("Makefile"), version) {
		t.Errorf("the Makefile does not have %s", version)
	}
	year := strings.Fields(p.read("internal/controller/suite_test.go"))[2]
	for _, args := range [][]string{
		{"rbac:roleName=manager-role", "crd", "webhook", "paths=./...", "output:crd:artifacts:config=config/crd/bases"},
		{`object:headerFile="hack/boilerplate.go.txt",year=` + strings.TrimSuffix(year, "."), "paths=./..."},
	} {
		if code, out := p.command(os.Environ(), tool, args...); code != 0 {
			t.Fatalf("controller-gen %v: exit code %d\n%s", args, code, out)
		}
	}
	if changed := changes(after, p.state()); len(changed) > 0 {
		t.Errorf("controller-gen writes other files: %v", changed)
	}
	// The definition of a type that is gone is named.
	p.write("config/crd/bases/own.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
	p.write("config/crd/bases/batch.example.com_jobs.yaml", strings.ReplaceAll(p.read(crd), "cronjob", "job"))
	if out := p.must("generate"); !strings.Contains(out, "config/crd/bases/batch.example.com_jobs.yaml: no type has this definition") || strings.Contains(out, "own.yaml") {
		t.Errorf("it says\n%s", out)
	}
}
