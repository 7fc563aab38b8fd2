package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// build makes the binary under test.
func build(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "kapok")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "../../cmd/kapok").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// process is a running server.
type process struct {
	*exec.Cmd
	out    bytes.Buffer // of both streams; to be read after done
	killed atomic.Bool  // set before it is killed: from then on, anything may break
	done   chan struct{}
}

// launch starts a server on a data directory; it is ready when the kubeconfig is
// there.
func launch(t *testing.T, binary, dir string) *process {
	if err := os.Remove(kubeconfig(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(binary, "up", "--listen=127.0.0.1:0", "--service-accounts=false", "--controllers=", "--data-dir", dir), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

// ready waits until the server is, and returns the way to it.
func (p *process) ready(ctx context.Context, dir string) (*rest.Config, error) {
	for tick := time.Tick(time.Millisecond); ; {
		if _, err := os.Stat(kubeconfig(dir)); err == nil {
			return clientcmd.BuildConfigFromFlags("", kubeconfig(dir))
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("the server ended by itself: %v\n%s", p.ProcessState, &p.out)
		case <-ctx.Done():
			return nil, fmt.Errorf("the server is not ready: %w", ctx.Err())
		case <-tick:
		}
	}
}

// kill ends the process at once, and waits until it is gone.
func (p *process) kill() {
	p.killed.Store(true)
	p.Process.Kill()
	<-p.done
}
