package kapoktest_test

import (
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
)

// TestBubbleThatIsBlocked checks that a bubble that waits for something outside fails, and that the
// message has the goroutine, what it waits for, and a remedy. The bubble ends when that event
// comes, which is how these tests end.
func TestBubbleThatIsBlocked(t *testing.T) {
	for _, tc := range []struct {
		name  string
		begin func(t *testing.T) (run func(*testing.T, *kapoktest.Env), release func())
		want  []string
	}{
		{"listener", func(t *testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			return func(*testing.T, *kapoktest.Env) { _ = http.Serve(l, http.NotFoundHandler()) }, func() { l.Close() }
		}, []string{"waits for connections to a socket in github.com/kapok-dev/kapok/kapoktest_test.TestBubbleThatIsBlocked", "watchdog_test.go:", "serve in memory"}},
		{"connection", func(t *testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			conn, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			return func(*testing.T, *kapoktest.Env) { _, _ = conn.Read(make([]byte, 1)) }, func() { conn.Close(); l.Close() }
		}, []string{"waits for data from a socket in ", "net.Pipe"}},
		{"process", func(t *testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestReadsUntilTheEnd$")
			cmd.Env = append(os.Environ(), readUntilTheEnd+"=1")
			stdin, err := cmd.StdinPipe()
			must(t, err)
			must(t, cmd.Start())
			return func(*testing.T, *kapoktest.Env) { _, _ = cmd.Process.Wait() }, func() { stdin.Close() }
		}, []string{"waits for the end of a process in ", "run processes before the bubble"}},
		{"pipe", func(t *testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			r, w, err := os.Pipe()
			must(t, err)
			return func(*testing.T, *kapoktest.Env) { _, _ = r.Read(make([]byte, 1)) }, func() { w.Close() }
		}, []string{"waits for a file or a pipe in "}},
		{"channel", func(*testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			ch := make(chan struct{})
			return func(*testing.T, *kapoktest.Env) { <-ch }, func() { close(ch) }
		}, []string{"waits for a channel created outside the bubble in ", "create it in the bubble"}},
		{"mutex", func(*testing.T) (func(*testing.T, *kapoktest.Env), func()) {
			var mu sync.Mutex
			mu.Lock()
			return func(*testing.T, *kapoktest.Env) { mu.Lock() }, mu.Unlock
		}, []string{"waits for a mutex in ", "while holding a mutex"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run, release := tc.begin(t)
			why, ended := kapoktest.Blocked(t, run, kapoktest.BlockedTimeout(50*time.Millisecond))
			release()
			<-ended
			for _, want := range append(tc.want, "for 50ms, ", "kapoktest.BlockedTimeout", "synctest bubble") {
				if !strings.Contains(why, want) {
					t.Errorf("no %q in\n%s", want, why)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const readUntilTheEnd = "KAPOKTEST_READ_UNTIL_THE_END"

// TestReadsUntilTheEnd is a process that runs until its standard input ends.
func TestReadsUntilTheEnd(t *testing.T) {
	if os.Getenv(readUntilTheEnd) == "" {
		t.Skip("is for the test of processes")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestBubbleThatIsNotBlocked checks that a bubble that computes, and one whose goroutines wait for
// each other and for the clock, do not count as blocked.
func TestBubbleThatIsNotBlocked(t *testing.T) {
	why, _ := kapoktest.Blocked(t, func(t *testing.T, env *kapoktest.Env) {
		sum := [sha256.Size]byte{}
		for range 1_000_000 { // takes much longer than the limit on any machine
			sum = sha256.Sum256(sum[:])
		}
		env.Create(configMap("cm"))
		time.Sleep(24 * time.Hour)
		env.Settle()
	}, kapoktest.BlockedTimeout(time.Millisecond))
	if why != "" {
		t.Error(why)
	}
}

const bubble1 = ", synctest bubble 1]"

// TestBlockedByStates checks that the states of goroutines show whether a bubble is blocked.
func TestBlockedByStates(t *testing.T) {
	const (
		self   = "goroutine 1 [running]:\nexample.com/a.F()\n\t/a.go:1 +0x1\n\n"
		sleeps = "goroutine 7 [sleep (durable), 2 minutes, synctest bubble 1]:\nexample.com/a.F()\n\t/a.go:1 +0x1\n\n"
	)
	stack := func(header string, functions ...string) string {
		text := "goroutine 9 [" + header + "]:\n"
		for _, f := range functions {
			text += f + "(0x1)\n\t/dir/f.go:12 +0x1\n"
		}
		return text + "\n"
	}
	for _, tc := range []struct {
		name, dump string
		want       string // "" if the bubble is not blocked
	}{
		{"all durably", self + sleeps, ""},
		{"one runs", self + sleeps + stack("running, synctest bubble 1"), ""},
		{"one is runnable", self + stack("IO wait, synctest bubble 1") + stack("runnable, synctest bubble 1"), ""},
		{"another bubble", self + sleeps + stack("IO wait, synctest bubble 12"), ""},
		{"a collection of garbage", self + stack("GC assist wait, synctest bubble 1"), ""},
		{"cgo", self + stack("syscall, synctest bubble 1", "runtime.cgocall", "example.com/a.C"), ""},
		{"a log that is not read", self + stack("syscall, synctest bubble 1", "syscall.write", "os.(*File).Write", "example.com/a.Log"), ""},
		{"a mutex while a log is not read", self + stack("sync.Mutex.Lock, synctest bubble 1") + stack("IO wait", "internal/poll.(*FD).Write", "os.(*File).Write"), ""},
		{"a mutex while another bubble runs", self + stack("sync.Mutex.Lock, synctest bubble 1") + stack("runnable, synctest bubble 2"), ""},
		{"a channel while something outside runs", self + stack("chan receive, synctest bubble 1") + stack("running"), ""},
		{"a listener while another bubble runs", self + stack("IO wait, synctest bubble 1", "net.(*netFD).accept", "example.com/a.Serve") + stack("running"),
			"goroutine 9 waits for connections to a socket in example.com/a.Serve at /dir/f.go:12"},
		{"a mutex", self + sleeps + stack("sync.Mutex.Lock, 3 minutes, locked to thread, synctest bubble 1", "sync.(*Mutex).Lock", "example.com/a.(*B).Lock"),
			"goroutine 9 waits for a mutex in example.com/a.(*B).Lock at /dir/f.go:12"},
		{"a lock for reading", self + sleeps + stack("sync.RWMutex.RLock, synctest bubble 1", "main.F"), "waits for a mutex in main.F at"},
		{"signals", self + stack("syscall, synctest bubble 1", "os/signal.signal_recv", "os/signal.loop"), "start the manager with env.Go(mgr.Start)"},
		{"metrics of controller-runtime", self + stack("IO wait, synctest bubble 1", "net.(*netFD).accept", "net/http.(*Server).Serve", "sigs.k8s.io/controller-runtime/pkg/metrics/server.(*defaultServer).Start"),
			`set Metrics.BindAddress of the manager's options to "0"`},
		{"health of controller-runtime", self + stack("IO wait, synctest bubble 1", "net.(*netFD).accept", "net/http.(*Server).Serve", "sigs.k8s.io/controller-runtime/pkg/manager.(*Server).serve"),
			`set HealthProbeBindAddress and PprofBindAddress`},
		{"webhooks of controller-runtime", self + stack("IO wait, synctest bubble 1", "net.(*netFD).accept", "net/http.(*Server).Serve", "sigs.k8s.io/controller-runtime/pkg/webhook.(*DefaultServer).Start"),
			"webhook.Options{Port: -1, WebhookMux: env.WebhookMux()}"},
		{"nothing", "", ""},
		{"half a dump", self + "goroutine 9 [IO wait", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := kapoktest.BlockedIn(tc.dump, bubble1); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("it says %q", got)
			}
		})
	}
}
