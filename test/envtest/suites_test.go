package envtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var all = flag.Bool("suites", false, "run all suites of controller-runtime, which takes minutes")

// TestSuites runs the suites of controller-runtime, unchanged, in a copy of its module: all of them
// with -suites, otherwise that of its client. Managers serve their metrics at any port: at the
// default one, 8080, a suite hangs if another process uses it. Ginkgo reports where a suite that
// takes too long is.
func TestSuites(t *testing.T) {
	const module = "sigs.k8s.io/controller-runtime"
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+required(t, module)).Output()
	if err != nil {
		t.Fatalf("go mod download: %v", err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "controller-runtime")
	if err := copyModule(dir, os.DirFS(found.Dir)); err != nil {
		t.Fatal(err)
	}

	// One of them needs the binaries of an older release, which envtest would download if they did
	// not exist.
	data, scratch := t.TempDir(), t.TempDir()
	older := filepath.Join(data, "kubebuilder-envtest", "k8s", "1.28.0-"+runtime.GOOS+"-"+runtime.GOARCH)
	if out, err := exec.Command(filepath.Join(assets, "kapok"), "envtest", older).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(packages []string, flags ...string) (said []byte, err error) {
		args := append([]string{"test", "-count=1", "-ldflags", "-X " + module + "/pkg/metrics/server.DefaultBindAddress=:0"}, packages...)
		suites := exec.Command("go", append(append(args, "--ginkgo.timeout=5m"), flags...)...)
		suites.Dir = dir
		suites.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "XDG_DATA_HOME="+data, "TMPDIR="+scratch) // some leave certificates behind
		said, err = suites.CombinedOutput()
		for line := range bytes.Lines(said) {
			if bytes.HasPrefix(line, []byte("ok")) {
				t.Logf("%s", bytes.TrimSpace(line))
			}
		}
		return said, err
	}
	if !*all {
		if said, err := run([]string{"./pkg/client"}); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
		return
	}
	onAssets, others := suites(t, dir)
	if len(onAssets) < 19 {
		t.Errorf("only %d suites start a server: %v", len(onAssets), onAssets)
	}
	said, err := run(onAssets)
	if again := racing(said); err != nil && again != nil {
		t.Logf("%v again", again)
		said, err = run(again, "--ginkgo.focus="+racers.String(), "--ginkgo.flake-attempts=5")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	// Some of these have specs that race with their own processes and clocks.
	if said, err := run(others, "--ginkgo.flake-attempts=3"); err != nil {
		t.Errorf("suites that start no server: %v\n%s", err, said)
	}
}

// suites returns the packages that have tests: those whose tests start a server, and the others.
func suites(t *testing.T, dir string) (onAssets, others []string) {
	t.Helper()
	list := exec.Command("go", "list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}`, "./pkg/...")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, " ")
		if strings.Contains(line, "/pkg/envtest") || strings.Contains(line, "/testing/controlplane") {
			onAssets = append(onAssets, name)
		} else {
			others = append(others, name)
		}
	}
	return onAssets, others
}

// racers matches the names of the specs of the cache that race with the server: with a context that
// is done already, they request an informer or a list from the cache, and expect an error, which
// occurs only if the server has not yet responded to the informer's list. On a busy machine Kapok
// is sometimes faster than the next two lines of the cache.
var racers = regexp.MustCompile("to be cancelled|when context is cancelled")

// racing returns the failed packages if racers are the only failures.
func racing(said []byte) (packages []string) {
	for line := range bytes.Lines(said) {
		text := strings.TrimSpace(string(line))
		switch {
		case strings.Contains(text, "[FAIL]") && !racers.MatchString(text):
			return nil
		case strings.HasPrefix(text, "FAIL\t"):
			name := strings.Fields(text)[1]
			if !strings.HasSuffix(name, "/pkg/cache") {
				return nil
			}
			packages = append(packages, name)
		}
	}
	return packages
}

// required returns the version of a module in go.mod.
func required(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// copyModule copies a module from the cache, which is read-only and whose scripts are not
// executable.
func copyModule(to string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(path))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, mode)
	})
}
