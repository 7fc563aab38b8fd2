//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
)

// TestSystemd runs kapok up as systemd does, with a socket for notifications and a watchdog.
func TestSystemd(t *testing.T) {
	dir, err := os.MkdirTemp("", "kapok-") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	s := newShell(t, "")
	s.env = append(s.env, "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=200000")
	p := launchIn(t, s, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig", filepath.Join(dir, "kubeconfig"))
	next := func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, 1024)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatalf("%v; the server printed %s", err, p.out)
		}
		return string(message[:n])
	}
	if message := next(); message != "READY=1" {
		t.Errorf("the first message is %q", message)
	}
	for range 2 {
		if message := next(); message != "WATCHDOG=1" {
			t.Errorf("the watchdog gets %q", message)
		}
	}
	// A hang-up has a service load its files, and does not end it.
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if message := next(); message != "WATCHDOG=1" {
			t.Errorf("after a hang-up, the watchdog gets %q", message)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	message := next()
	for message == "WATCHDOG=1" {
		message = next()
	}
	if message != "STOPPING=1" {
		t.Errorf("the last message is %q", message)
	}
	if <-p.done; p.err != nil {
		t.Errorf("%v: %s", p.err, p.out)
	}
}

// TestLogFormat checks that each line of the log is JSON, also those of Kubernetes' packages.
func TestLogFormat(t *testing.T) {
	s := newShell(t, "")
	dir := t.TempDir()
	p := launchIn(t, s, "up", "--in-memory", "--listen=127.0.0.1:0", "--log-format=json", "--log-level=debug", "--kubeconfig", filepath.Join(dir, "kubeconfig"))
	p.ready(t, filepath.Join(dir, "kubeconfig"))
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if <-p.done; p.err != nil {
		t.Fatal(p.err)
	}
	lines := 0
	for line := range strings.Lines(p.out.String()) {
		if strings.HasPrefix(line, `{"time":`) {
			lines++
		} else if strings.Contains(line, "level=") || strings.HasPrefix(line, "I1") || strings.HasPrefix(line, "E1") || strings.HasPrefix(line, "W1") {
			t.Errorf("a line in another format: %s", line)
		}
	}
	if lines == 0 {
		t.Errorf("no line is JSON:\n%s", p.out)
	}
	if code, _, errs := s.kapok("", "up --in-memory --log-format=xml"); code != exitUsage || !strings.Contains(errs, `--log-format: "xml" is invalid: want text or json`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestSocketActivation starts kapok up with a socket that is open already, as systemd does. A
// request that is sent before the server is ready waits.
func TestSocketActivation(t *testing.T) {
	const script = `LISTEN_PID=$$ exec "$0" "$@"`
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	activate := func(sockets []*os.File, args ...string) *process {
		t.Helper()
		s := newShell(t, "")
		p := &process{Cmd: exec.Command("sh", append([]string{"-c", script, program, "up", "--in-memory"}, args...)...), out: &bytes.Buffer{}, done: make(chan struct{})}
		p.Env = append(s.env, fmt.Sprint("LISTEN_FDS=", len(sockets)))
		p.ExtraFiles = sockets
		p.run(t)
		return p
	}
	type socket interface{ File() (*os.File, error) }
	file := func(s socket) *os.File {
		t.Helper()
		f, err := s.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	listening := func() (*os.File, string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return file(l.(*net.TCPListener)), l.Addr().String()
	}

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	open, address := listening()
	p := activate([]*os.File{open}, "--kubeconfig", kubeconfig)
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // before there is a certificate to verify
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /readyz HTTP/1.1\r\nHost: kapok\r\nConnection: close\r\n\r\n")
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
		t.Errorf("the first request: %v\n%s", err, answer)
	}
	if config := p.ready(t, kubeconfig); config.Host != "https://"+address {
		t.Errorf("the server of the kubeconfig is %s, want %s", config.Host, address)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, out := p.end(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}

	peer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	connected, err := net.Dial("tcp", peer.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	second, _ := listening()
	for _, tc := range []struct {
		sockets []*os.File
		args    []string
		want    string
	}{
		{[]*os.File{open, second}, nil, "systemd has opened 2 sockets: want one of TCP"},
		{[]*os.File{file(connected.(*net.TCPConn))}, nil, "accepts no connections: want Accept=no"},
		{[]*os.File{file(packets.(*net.UDPConn))}, nil, "is none of TCP"},
		{[]*os.File{open}, []string{"--listen=127.0.0.1:0"}, "--listen is set, and systemd has opened a socket"},
		{[]*os.File{open}, []string{"--detach"}, "--detach is set, and systemd has opened a socket:"},
	} {
		if code, out := activate(tc.sockets, tc.args...).end(t); code != exitUsage || !strings.Contains(out, tc.want) {
			t.Errorf("exit code %d, want %q:\n%s", code, tc.want, out)
		}
	}
}

// TestStopBeforeReady checks that a signal during the start is no failure.
func TestStopBeforeReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := newUpState()
	u.console = false
	var out bytes.Buffer
	if err := u.run(ctx, kapok.Options{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), Listen: "127.0.0.1:0"}, &out); err != nil || !strings.Contains(out.String(), "Stopped before") {
		t.Errorf("%v, %s", err, &out)
	}
}
