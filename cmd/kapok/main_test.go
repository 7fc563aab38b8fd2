package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	processnode "github.com/kapok-dev/kapok/node/process"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// asCommand is set in the environment of the test binary where it runs as kapok, or under a name of
// a link to kapok.
const asCommand = "KAPOK_TEST_AS_COMMAND"

// TestMain makes this binary the command under test, too, for the processes that tests start: to
// build another one takes longer than all of them.
func TestMain(m *testing.M) {
	processnode.Main()
	if os.Getenv(asCommand) != "" {
		main()
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		panic(err)
	}
	os.Exit(alone(m))
}

// alone runs the tests without the instances of the user.
func alone(m *testing.M) int {
	home, err := os.MkdirTemp("", "kapok-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	for name, value := range map[string]string{"XDG_DATA_HOME": home, "KUBECONFIG": "", "KAPOK_INSTANCE": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// binary returns the path of the command under test.
func binary() (string, error) { return os.Executable() }

// process is a running kapok.
type process struct {
	*exec.Cmd
	out  *bytes.Buffer // of both streams; to be read when it has ended
	done chan struct{}
	err  error
}

func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchIn(t, &shell{env: append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "config"), "XDG_DATA_HOME="+t.TempDir())}, args...)
}

// launchIn is launch in the environment and the directory of a shell.
func launchIn(t *testing.T, s *shell, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(path, args...), out: &bytes.Buffer{}, done: make(chan struct{})}
	p.Env, p.Dir = s.env, s.home
	p.run(t)
	return p
}

// run starts the process, which is killed at the end of the test.
func (p *process) run(t *testing.T) {
	t.Helper()
	p.Stdout, p.Stderr = p.out, p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.done
	})
}

// ready waits for the kubeconfig, as a script would, and uses it at once.
func (p *process) ready(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	for !exists(kubeconfig) {
		select {
		case <-p.done:
			t.Fatalf("kapok ended: %v\n%s", p.err, p.out)
		case <-time.After(time.Millisecond):
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("the kubeconfig is there, but not whole: %v", err)
	}
	for _, path := range []string{"/readyz", "/version"} {
		if code := status(t, config, path); code != 200 {
			t.Fatalf("the kubeconfig is there, but %s answers %d", path, code)
		}
	}
	return config
}

// end waits for the process and returns its exit code and what it printed.
func (p *process) end(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatal("kapok does not end")
	}
	return p.ProcessState.ExitCode(), p.out.String()
}

func status(t *testing.T, config *rest.Config, path string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Get(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// A newcomer's first minutes: start, use, interrupt, start again.
func TestUp(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	dir := filepath.Join(t.TempDir(), "data")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	var keys []string
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := launch(t, "up", "--listen=127.0.0.1:0", "--data-dir", dir)
		config := p.ready(t, kubeconfig)
		keys = append(keys, string(config.KeyData))
		anonymous := rest.AnonymousClientConfig(config)
		for path, want := range map[string]int{"/livez": 200, "/version": 200, "/api": 403, "/metrics": 403} {
			if code := status(t, anonymous, path); code != want {
				t.Errorf("%s answers %d to strangers, want %d", path, code, want)
			}
		}
		anonymous.BearerToken = "wrong"
		if code := status(t, anonymous, "/readyz"); code != 401 {
			t.Errorf("a wrong token gets %d", code)
		}
		p.Process.Signal(sig)
		code, out := p.end(t)
		if code != 0 {
			t.Errorf("exit code %d after %v", code, sig)
		}
		for _, want := range []string{config.Host, dir, "ready", "export KUBECONFIG=" + kubeconfig, "Stopping"} {
			if !strings.Contains(out, want) {
				t.Errorf("output lacks %q:\n%s", want, out)
			}
		}
		if exists(kubeconfig) {
			t.Error("the kubeconfig outlives the server")
		}
	}
	if keys[0] != keys[1] {
		t.Error("the second start made new credentials")
	}
}

// TestSignals checks that watches end cleanly, and that a hanging request does not keep the process
// from ending after a second signal.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	begin := func(t *testing.T) (*process, *http.Client, string) {
		p := launch(t, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig", file)
		config := p.ready(t, file)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return p, client, config.Host
	}

	t.Run("drain", func(t *testing.T) {
		p, client, host := begin(t)
		watch, err := client.Get(host + "/api/v1/namespaces?watch=true&resourceVersion=0")
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Body.Close()
		p.Process.Signal(syscall.SIGTERM)
		body, err := io.ReadAll(watch.Body)
		if err != nil || !bytes.Contains(body, []byte(`"kube-system"`)) {
			t.Errorf("the watch ended with %v after %s", err, body)
		}
		if code, out := p.end(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})

	t.Run("second signal", func(t *testing.T) {
		p, client, host := begin(t)
		body, writer := io.Pipe() // never written to
		defer writer.Close()
		reading := make(chan struct{})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
		request, err := http.NewRequestWithContext(ctx, "POST", host+"/api/v1/namespaces", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Expect", "100-continue")
		answered := make(chan error)
		go func() {
			r, err := client.Do(request)
			if err == nil {
				r.Body.Close()
			}
			answered <- err
		}()
		select {
		case <-reading: // the server waits for the body
		case err := <-answered:
			t.Fatalf("answered without a body: %v", err)
		}
		for ended, begun := false, time.Now(); !ended; {
			p.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
				ended = true
			case <-time.After(500 * time.Millisecond): // the process may still be at its first
				if time.Since(begun) > 2*time.Minute {
					t.Fatal("kapok does not end")
				}
			}
		}
		// A process that waits for the request until its time limit exits with a code.
		if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v, want by the signal", p.ProcessState)
		}
		if err := <-answered; err == nil {
			t.Error("the request that hangs was answered")
		}
	})
}

func TestUpInMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	p := launch(t, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig", file)
	p.ready(t, file)
	for _, env := range p.Env {
		if home, ok := strings.CutPrefix(env, "XDG_DATA_HOME="); ok && exists(filepath.Join(home, "kapok")) {
			t.Errorf("something was written to %s", home)
		}
	}
}

// The default directory is the user's data home.
func TestUpDefaultDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no XDG directories")
	}
	p := launch(t, "up", "--listen=127.0.0.1:0")
	home, _ := strings.CutPrefix(p.Env[len(p.Env)-1], "XDG_DATA_HOME=")
	p.ready(t, filepath.Join(home, "kapok", "kubeconfig"))
}

func TestErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	running := launch(t, "up", "--listen=127.0.0.1:0", "--data-dir", dir)
	address := strings.TrimPrefix(running.ready(t, filepath.Join(dir, "kubeconfig")).Host, "https://")
	other := filepath.Join(t.TempDir(), "other")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"up --listen 127.0.0.1:0 --data-dir " + dir, 1, "another kapok is running on data directory " + dir},
		{"up --data-dir " + other + " --listen " + address, 1, address + ", which another program uses: stop it, or listen at 127.0.0.1:0, which picks a free port"},
		{"up --data-dir " + other + " --listen nonsense", 1, `kapok: --listen is "nonsense": want HOST:PORT`},
		{"up --data-dir " + other + " --listen DataDir", 1, `kapok: --listen is "DataDir": want HOST:PORT`},
		{"up --listen=", 2, "--listen must not be empty"},
		{"up --in-memory --listen=127.0.0.1:0 --tls-san=kapok:6443", 1, `kapok: --tls-san has "kapok:6443": want a DNS name`},
		{"up --in-memory --listen=127.0.0.1:0 --tls-san=", 1, `kapok: --tls-san has "": want a DNS name`},
		{"up --in-memory --listen=127.0.0.1:0 --tls-cert-file=x", 1, `kapok: --tls-cert-file is "x" and --tls-private-key-file is "": set both or neither`},
		{"up --in-memory --listen=127.0.0.1:0 --authorization-webhook-config-file=x", 1, `kapok: --authorization-webhook-config-file is "x" but --authorization-mode has no Webhook: add Webhook to --authorization-mode`},
		{"up --in-memory --tls-san=kapok --tls-cert-file=x --tls-private-key-file=y", 2, "exclude each other"},
		{"up --in-memory --data-dir " + other, 2, "exclude each other"},
		{"up --log-level loud", 2, "loud"},
		{"up --crd-v1beta1=perhaps", 2, "perhaps"},
		{"up --nope", 2, "unknown flag: --nope"},
		{"up a b", 2, `too many arguments`},
		{"nope", 2, `unknown command "nope" for "kapok"`},
		{"version now", 2, `unexpected argument`},
	} {
		p := launch(t, strings.Fields(tc.args)...)
		code, out := p.end(t)
		// A warning may come before, as of a disk that is nearly full.
		if code != tc.code || !strings.Contains(out, tc.want) || !strings.Contains("\n"+out, "\nkapok: ") {
			t.Errorf("kapok %s: exit code %d, want %d, with %s\n%s", tc.args, code, tc.code, tc.want, out)
		}
	}
	if code := status(t, running.ready(t, filepath.Join(dir, "kubeconfig")), "/readyz"); code != 200 {
		t.Errorf("the running server suffered: %d", code)
	}
}

func TestVersion(t *testing.T) {
	code, out := launch(t, "version").end(t)
	if code != 0 || !strings.HasPrefix(out, "kapok ") || !strings.Contains(out, "Kubernetes API 1.37") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestExport(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("another shell")
	}
	for file, want := range map[string]string{
		"/home/me/.local/share/kapok/kubeconfig": "export KUBECONFIG=/home/me/.local/share/kapok/kubeconfig",
		"/home/me/my files/kubeconfig":           "export KUBECONFIG='/home/me/my files/kubeconfig'",
		"/it's":                                  `export KUBECONFIG='/it'\''s'`,
	} {
		if got := export("KUBECONFIG", file); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
