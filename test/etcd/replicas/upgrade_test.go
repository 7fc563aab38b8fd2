//go:build unix

package replicas

import (
	"bytes"
	"flag"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var old = flag.String("old", "", "an earlier kapok, which TestUpgrade upgrades one server after the other")

// TestUpgrade has servers of two versions on one etcd, as while docs/upgrading.md is followed: each
// is replaced by one of the new version, and then by one of the old version again. Meanwhile
// clients of both go on, and see no error but broken connections.
func TestUpgrade(t *testing.T) {
	if *old == "" {
		t.Skip("needs the program of an earlier version: -old FILE")
	}
	earlier, err := filepath.Abs(*old)
	if err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(t.TempDir(), "kapok")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", current, "./cmd/kapok")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kapok: %v\n%s", err, out)
	}

	c := startCluster(t, 1)
	servers := []*process{c.launch(t, earlier), c.launch(t, current)}
	u := newUsers(t, servers)
	u.begin()
	together(t, "old-new", servers)
	for _, step := range []struct {
		name    string
		server  int
		program string
	}{
		{"new-new", 0, current},
		{"new-old", 1, earlier},
		{"old-old", 0, earlier},
	} {
		servers[step.server].replace(t, step.program)
		together(t, step.name, servers)
	}
	u.end()
	u.verify()
	agree(t, servers)
	t.Log(u)
}

// A process is a server in a process of its own. Its address stays the same when it is replaced.
type process struct {
	*api
	config  *rest.Config
	flags   []string
	running *exec.Cmd
	output  *bytes.Buffer
	ended   chan struct{} // closed when the process has ended
}

// launch starts a server with a program, and waits until it is ready.
func (c *cluster) launch(t *testing.T, program string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{flags: []string{
		"up", "--store", "etcd://" + c.address(0), "--listen", freeURL(t)[0].Host, "--data-dir", dir,
	}}
	p.start(t, program)
	t.Cleanup(func() {
		p.running.Process.Kill()
		<-p.ended
	})
	p.eventually(t, "the server has written its kubeconfig", func() bool {
		var err error
		p.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
		return err == nil
	})
	p.config.QPS = -1
	p.api = newAPI(t, p.config)
	p.ready(t)
	return p
}

func (p *process) start(t *testing.T, program string) {
	t.Helper()
	p.running, p.output, p.ended = exec.Command(program, p.flags...), new(bytes.Buffer), make(chan struct{})
	p.running.Stdout, p.running.Stderr = p.output, p.output
	if err := p.running.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.running.Wait()
	}()
}

// replace stops the server gracefully, and starts another program in its place. The credentials of
// clients stay valid.
func (p *process) replace(t *testing.T, program string) {
	t.Helper()
	if err := p.running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("the server has not ended a minute after SIGTERM")
	}
	if code := p.running.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output)
	}
	p.start(t, program)
	p.ready(t)
}

func (p *process) ready(t *testing.T) {
	t.Helper()
	p.eventually(t, "the server is ready", func() bool {
		got, err := p.try(t.Context(), "GET", "/readyz", "")
		return err == nil && got.status == 200
	})
}

// eventually waits for a condition, and ends the test if the process ends before.
func (p *process) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventually(t, time.Minute, what, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the server has ended: %v\n%s", p.running.ProcessState, p.output)
		default:
		}
		return ok()
	})
}
