//go:build linux || darwin

package simulated_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// fixed are Answers for the pod web.
type fixed struct {
	log, attach *simulated.LogFile
	exec        *simulated.Commands
	address     string
}

func (f *fixed) Log(p *corev1.Pod, _ string) (*simulated.LogFile, error) {
	if p.Name == "broken" {
		return nil, errors.New("it is broken")
	}
	if p.Name != "web" {
		return nil, nil
	}
	return f.log, nil
}
func (f *fixed) Attach(*corev1.Pod, string) (*simulated.LogFile, error) { return f.attach, nil }
func (f *fixed) Exec(*corev1.Pod, string) (*simulated.Commands, error)  { return f.exec, nil }
func (f *fixed) Forward(_ *corev1.Pod, port int32) (*simulated.Forward, error) {
	switch port {
	case 80:
		return &simulated.Forward{Address: f.address}, nil
	case 81:
		return &simulated.Forward{Command: []string{"cat"}}, nil
	}
	return nil, nil
}

const logLine = "2026-01-01T00:00:00Z stdout F "

// TestAnswers asks for logs, commands and ports of pods by files and programs of this machine.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	if err := errors.Join(os.WriteFile(file+".1", []byte(logLine+"zero\n"), 0o600), os.WriteFile(file, []byte(logLine+"one\n"+logLine+"two\n"), 0o600), os.Symlink(file, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() { // ends with the listener
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	answers := &fixed{
		log: &simulated.LogFile{Path: filepath.Join(dir, "link")}, attach: &simulated.LogFile{Path: file}, address: echo.Addr().String(),
		exec: &simulated.Commands{Dir: dir, Env: []string{"NAME=value"}},
	}
	env := kapoktest.Start(t)
	kubelet := &simulated.Kubelet{}
	env.Go(newManager(t, env.Config(), simulated.Options{Nodes: 1, Kubelet: kubelet, Answers: answers}).Start)
	web, other, broken := newPod("web", "node-0"), simulating(newPod("other", "node-0"), `containers: {c: {logs: "of the annotation\n"}}`), newPod("broken", "node-0")
	env.Create(web, other, broken)
	for _, p := range []*corev1.Pod{web, other, broken} {
		awaitPod(t, env, p, func() bool {
			return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
		})
	}
	handler := kubelet.Handler("node-0")
	var requests sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		defer requests.Done()
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/containerLogs/default/web/c":             "200 zero\none\ntwo\n",
		"/containerLogs/default/web/c?tailLines=1": "200 two\n",
		"/containerLogs/default/other/c":           "200 of the annotation\n",
		"/containerLogs/default/broken/c":          "400 it is broken",
		"/containerLogs/default/web/d":             `400 container "d" in pod "web" is not available`,
	} {
		code, body := get(t, server, path)
		if got := strconv.Itoa(code) + " " + body; !strings.HasPrefix(got, want) || len(got) > len(want)+1 {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	streamTo := func(ctx context.Context, path, in string, tty bool, out io.Writer) error {
		to, err := url.Parse(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		e, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: server.URL}, "POST", to)
		if err != nil {
			t.Fatal(err)
		}
		o := remotecommand.StreamOptions{Stdout: out, Tty: tty}
		if in != "" {
			o.Stdin = strings.NewReader(in)
		}
		return e.StreamWithContext(ctx, o)
	}
	stream := func(ctx context.Context, path, in string, tty bool) (string, error) {
		var out syncBuffer
		err := streamTo(ctx, path, in, tty, &out)
		return out.String(), err
	}
	const command = "/exec/default/web/c?output=1&input=1&command=sh&command=-c&command="
	got, err := stream(t.Context(), command+url.QueryEscape("cat; pwd; echo $NAME; exit 3"), "in ", false)
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || got != "in "+dir+"\nvalue\n" {
		t.Errorf("exec: %q, %v", got, err)
	}
	if got, err := stream(t.Context(), strings.Replace(command, "input=1", "tty=1", 1)+url.QueryEscape("test -t 1 && echo terminal"), "", true); err != nil || got != "terminal\r\n" {
		t.Errorf("exec in a terminal: %q, %v", got, err)
	}
	if _, err := stream(t.Context(), "/exec/default/web/c?output=1&command=/absent", "", false); err == nil {
		t.Error("a program that does not exist is no error")
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown syncBuffer
	attached := make(chan error, 1)
	go func() { attached <- streamTo(ctx, "/attach/default/web/c?output=1", "", false, &shown) }()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for limit := time.Now().Add(time.Minute); shown.String() == ""; time.Sleep(10 * time.Millisecond) {
		if _, err := f.WriteString(logLine + "more\n"); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(limit) {
			t.Fatal("a client that is attached does not see what is added to the log")
		}
	}
	cancel()
	<-attached
	if got := shown.String(); strings.Contains(got, "two") {
		t.Errorf("attach: %q, want what was added since", got)
	}

	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(server.URL + "/portForward/default/web")
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	var errs syncBuffer
	forward, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", to), []string{"0:80", "0:81", "0:82"}, stop, ready, io.Discard, &errs)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- forward.ForwardPorts() }()
	<-ready
	ports, err := forward.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"text", "text", ""} {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[i].Local))))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "text")
		_ = c.(*net.TCPConn).CloseWrite()
		if got, _ := io.ReadAll(c); string(got) != want {
			t.Errorf("port %d: got %q, want %q", ports[i].Remote, got, want)
		}
		c.Close()
	}
	close(stop)
	<-done
	over := make(chan struct{})
	go func() {
		requests.Wait()
		close(over)
	}()
	for ended := false; !ended; { // a request notices at the next line that its client has gone
		if _, err := f.WriteString(logLine + "more\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
