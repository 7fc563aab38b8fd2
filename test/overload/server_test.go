package overload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	memoryLimit = 512 << 20
	// settleTime is the maximum time until the server has recovered from an attack.
	settleTime = 40 * time.Second
	// The memory that a server may use in addition: the history of changes (32 MiB), tables of the
	// journal, caches.
	memoryAllowance = 80 << 20
	// The goroutines that it may have in addition: those of connections that are about to end.
	goroutineAllowance = 20
)

// A server is a running kapok up.
type server struct {
	t      *testing.T
	kapok  string
	dir    string
	cmd    *exec.Cmd
	cage   cage
	admin  *rest.Config
	client *http.Client // the admin's
	log    lockedBuffer
	ctx    context.Context // done when the process has ended

	mu    sync.Mutex
	users map[string]string // name to kubeconfig; guarded by mu
}

// A condition is the memory and the number of goroutines of an idle server.
type condition struct {
	memory     uint64 // anonymous, in bytes; 0 if unknown
	goroutines int
}

// startServer returns a server that is ready.
func startServer(t *testing.T, kapok string) *server {
	t.Helper()
	s := &server{t: t, kapok: kapok, dir: t.TempDir(), users: map[string]string{}}
	s.cmd = exec.Command(kapok, "up", "--listen=127.0.0.1:0", "--controllers=", "--data-dir", s.dir)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cage = newCage(t)
	if err := s.cage.start(s.cmd); err != nil {
		s.cage.remove()
		t.Fatal(err)
	}
	ctx, ended := context.WithCancel(context.Background())
	s.ctx = ctx
	go func() {
		_ = s.cmd.Wait()
		ended()
	}()
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	deadline := time.Now().Add(time.Minute)
	for {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err == nil {
			s.admin = config
			break
		}
		if s.ctx.Err() != nil || time.Now().After(deadline) {
			s.kill()
			t.Fatalf("the server does not start:\n%s", s.log.String())
		}
		pause(s.ctx, 10*time.Millisecond)
	}
	var err error
	if s.client, err = newClient(s.admin, true); err != nil {
		s.kill()
		t.Fatal(err)
	}
	return s
}

// stop ends the server gracefully.
func (s *server) stop() error {
	defer s.kill()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return nil // not on this system
	}
	select {
	case <-s.ctx.Done():
	case <-time.After(time.Minute):
		return errors.New("it has not ended after a minute")
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("%v:\n%s", s.cmd.ProcessState, tail(s.log.String()))
	}
	return nil
}

// kill ends the server at once, if it has not ended.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ctx.Done()
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.cage.remove()
}

// obituary returns why a server has ended.
func (s *server) obituary() string {
	why := s.cmd.ProcessState.String()
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		why += ", as happens to a process that has used up its memory"
	}
	return fmt.Sprintf("the server died: %s\n%s", why, tail(s.log.String()))
}

// tail returns the end of a text.
func tail(text string) string {
	const most = 2000
	if len(text) > most {
		return "... " + text[len(text)-most:]
	}
	return text
}

// user returns the kubeconfig of a user, with a certificate for a login.
func (s *server) user(name string) (kubeconfig string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.users[name]; known != "" {
		return known, nil
	}
	file := filepath.Join(s.dir, name+".kubeconfig")
	if out, err := exec.Command(s.kapok, "user", "add", name, "--data-dir", s.dir, "--output", file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("kapok user add: %w: %s", err, out)
	}
	s.users[name] = file
	return file, nil
}

// config returns the configuration of a user; with the name "" it has no credentials.
func (s *server) config(name string) (*rest.Config, error) {
	if name == "" {
		return rest.AnonymousClientConfig(s.admin), nil
	}
	kubeconfig, err := s.user(name)
	if err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// do sends a request of the admin, which must succeed.
func (s *server) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	code, answer, err := exchange(ctx, s.client, method, s.admin.Host+path, contentType, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if code >= 300 {
		return nil, fmt.Errorf("%s %s: %d %.500s", method, path, code, answer)
	}
	return answer, nil
}

var goroutinesMetric = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (s *server) goroutines(ctx context.Context) (int, error) {
	metrics, err := s.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	found := goroutinesMetric.FindSubmatch(metrics)
	if found == nil {
		return 0, errors.New("the metrics do not tell the number of goroutines")
	}
	return strconv.Atoi(string(found[1]))
}

// rest measures the idle server.
func (s *server) rest(ctx context.Context) (c condition, err error) {
	c.memory = anonymous(s.cmd.Process.Pid)
	c.goroutines, err = s.goroutines(ctx)
	return c, err
}

// settle waits until the server's condition is as before, except for what it keeps and the
// allowances. It returns the last condition.
func (s *server) settle(ctx context.Context, before condition, keeps uint64, now *condition) (err error) {
	deadline := time.Now().Add(settleTime)
	for {
		now.memory = anonymous(s.cmd.Process.Pid)
		if now.goroutines == 0 || now.goroutines > before.goroutines+goroutineAllowance {
			// Not more often: a server that serves requests does not return memory.
			if now.goroutines, err = s.goroutines(ctx); err != nil {
				return fmt.Errorf("after the attack: %w", err)
			}
		}
		memory, goroutines := before.memory+keeps+memoryAllowance, before.goroutines+goroutineAllowance
		if now.memory <= memory && now.goroutines <= goroutines {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v after the attack: %d MB of memory, limit %d; %d goroutines, limit %d",
				settleTime, now.memory>>20, memory>>20, now.goroutines, goroutines)
		}
		pause(ctx, time.Second)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// watchPeak measures the memory of the server until ctx is done, and returns the maximum.
func (s *server) watchPeak(ctx context.Context) (peak uint64) {
	for ctx.Err() == nil {
		peak = max(peak, anonymous(s.cmd.Process.Pid))
		pause(ctx, 20*time.Millisecond)
	}
	return peak
}

// pause waits between two polls.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A lockedBuffer is a buffer for the output of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
