package conformance

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	long    = flag.Bool("long", false, "build the e2e test program of Kubernetes and run the conformance tests, which takes minutes")
	control = flag.String("controllers", "", "value of the flag --controllers of kapok up: with it, some skipped specs may pass")
	program = flag.String("e2e", "", "file with the e2e test program; it is built if it does not exist (default: built for this run)")
	rewrite = flag.Bool("rewrite", false, "write the results into "+list)
	skipped = flag.Bool("skipped", false, "also run the specs that are skipped; they may fail")
	limit   = flag.Duration("limit", 15*time.Minute, "limit of the time of a spec")
)

// TestConformance runs each spec in a process of its own, on one server. Specs that are not serial
// run in parallel, as many at a time as go test -parallel allows.
func TestConformance(t *testing.T) {
	if !*long {
		t.Skip("needs -long")
	}
	e := environment{e2e: e2e(t)}
	e.kubectl, e.kubeconfig = start(t)
	command(t, e.kubectl, "--kubeconfig="+e.kubeconfig, "create", "-f", "testdata/node.yaml")
	command(t, e.kubectl, "--kubeconfig="+e.kubeconfig, "taint", "node", "node", "node.kubernetes.io/not-ready-")

	specs := read(t)
	var mu sync.Mutex // guards states and reasons of specs
	t.Run("specs", func(t *testing.T) {
		for i, s := range specs {
			if s.state == "skip" && !*skipped {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				if !s.serial() {
					t.Parallel()
				}
				got := e.run(t, s.name)
				t.Logf("%s: %s", got.State, got.Message)
				passed := got.State == "passed"
				switch {
				case *rewrite:
					mu.Lock()
					defer mu.Unlock()
					specs[i] = s.after(got)
				case passed && s.state != "pass":
					t.Errorf("the spec passes, and %s says %s", list, s.state)
				case !passed && s.state == "pass":
					t.Errorf("the spec has %s: %s", got.State, got.Message)
				}
			})
		}
	})
	if *rewrite {
		write(t, specs)
	}
}

// after returns the line of a spec for a result. Reasons that exist are kept: they are better than
// the message of a failure.
func (s spec) after(r result) spec {
	switch {
	case r.State == "passed":
		return spec{state: "pass", name: s.name}
	case s.state == "pass":
		message, _, _ := strings.Cut(r.Message, "\n")
		return spec{state: "fail", name: s.name, reason: r.State + ": " + message}
	default:
		return s
	}
}

// environment holds the paths that the e2e test program needs.
type environment struct{ e2e, kubectl, kubeconfig string }

// result is the result of a spec. State is a state of Ginkgo, such as passed or failed.
type result struct{ Name, State, Message string }

// run runs a spec. A spec that exceeds the limit is interrupted, so that it removes its objects.
func (e environment) run(t *testing.T, name string) result {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "results")
	c := exec.Command(e.e2e,
		"-results="+file,
		"-kubeconfig="+e.kubeconfig,
		"-kubectl-path="+e.kubectl,
		"-provider=skeleton",
		"-allowed-not-ready-nodes=-1",
		"-ginkgo.focus="+regexp.QuoteMeta(name)+"$",
		"-ginkgo.timeout="+limit.String(),
		"-ginkgo.grace-period=10s",
		"-ginkgo.no-color",
	)
	c.Dir = dir
	out, failed := c.CombinedOutput()
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the program has no results: %v, %v\n%s", failed, err, out)
	}
	for line := range strings.Lines(string(lines)) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("the spec did not run: %v\n%s", failed, out)
	return result{}
}

// e2e returns the e2e test program.
func e2e(t *testing.T) string {
	t.Helper()
	file := *program
	if file == "" {
		file = filepath.Join(t.TempDir(), executable("e2e.test"))
	}
	file, err := filepath.Abs(file) // it runs in directories of its own
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		// Some specs read the version of the program, which Kubernetes' own build sets, too.
		version := strings.TrimSpace(command(t, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"))
		// More compilers at a time need more memory than small machines have.
		command(t, "go", "test", "-p", "2", "-tags", "conformance", "-ldflags", "-X k8s.io/component-base/version.gitVersion="+version,
			"-c", "-o", file, "./e2e")
	}
	return file
}

// start builds Kapok, and starts a server that ends with the test. It returns kubectl, which is
// part of Kapok, and the kubeconfig of the admin.
func start(t *testing.T) (kubectl, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	kapok := filepath.Join(dir, executable("kapok"))
	command(t, "go", "build", "-C", "../..", "-o", kapok, "./cmd/kapok")
	command(t, kapok, "envtest", filepath.Join(dir, "assets"))

	kubeconfig = filepath.Join(dir, "kubeconfig")
	// A spec waits until the history that it has read from has gone, which takes long by default.
	server := exec.Command(kapok, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig="+kubeconfig, "--history-age=1m", "--controllers="+*control)
	server.Stderr = os.Stderr
	in, out := io.Pipe()
	server.Stdout = out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := server.Wait()
		out.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		if server.Process.Signal(os.Interrupt) != nil { // Windows has no such signal
			_ = server.Process.Kill()
		}
		go func() { _, _ = io.Copy(io.Discard, in) }()
		if err := <-ended; err != nil {
			t.Errorf("the server has ended: %v", err)
		}
	})
	// The server prints its address when it is ready.
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), "address") {
			return filepath.Join(dir, "assets", executable("kubectl")), kubeconfig
		}
	}
	t.Fatal("the server has ended before it was ready")
	return "", ""
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// command runs a program and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	var errors strings.Builder
	c := exec.Command(name, args...)
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &errors)
	}
	return string(out)
}
