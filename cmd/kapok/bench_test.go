package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/bench"
)

// Invalid flags are rejected before the first request to a server.
func TestBenchFlags(t *testing.T) {
	kubeconfig := kubeconfigOf(t, "http://127.0.0.1:1")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"more", 2, `unexpected argument "more"`},
		{"--measure=get,lists", 2, `--measure "lists" is unknown: must be some of connect,`},
		{"--measure=", 2, "--measure must not be empty"},
		{"--measure=memory", 2, "--measure memory needs --pid"},
		{"--scale=big", 2, `--scale "big" is unknown: must be small or full`},
		{"--scale=", 2, "--scale must not be empty"},
		{"--duration=fast", 2, `--duration: "fast" is not a duration`},
		{"--duration=0s", 2, "--duration 0s is too short: must be at least 100ms"},
		{"--duration=5ms", 2, "--duration 5ms is too short: must be at least 100ms"},
		{"--connections=two", 2, `--connections "two" is invalid: want shared or own`},
		{"--pid=etcd", 2, `"etcd" is not a process ID: want PID or PID,PID`},
		{"--pid=1,-2", 2, `"-2" is not a process ID`},
		{"--pid=99999999", 2, "--pid"}, // not there, or no /proc
		{"--fsync-dir=/is/not/there", 2, "--fsync-dir: "},
		{"--kubeconfig=", 2, "--kubeconfig must not be empty"},
		{"--context=", 2, "--context must not be empty"},
		{"-o yaml", 2, "want json or text"},
		{"", 1, "no server given: set --kubeconfig FILE or $KUBECONFIG"},
		{"--kubeconfig=/is/not/there", 1, "kubeconfig /is/not/there: /is"},
		{"--kubeconfig=" + broken, 1, "kubeconfig " + broken + ": "},
		{"--context=other --kubeconfig=" + kubeconfig, 1, `context "other" does not exist`},
		{"--kubeconfig=" + kubeconfig, 1, "no server at http://127.0.0.1:1: "},
	} {
		code, stdout, stderr := kapokRun(append([]string{"bench"}, strings.Fields(tc.args)...)...)
		if runtime.GOOS == "windows" && strings.Contains(tc.args, "/is/not/there") {
			tc.want = "/is/not/there" // in words of its own
		}
		if code != tc.code || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d: %s%s", tc.args, code, stdout, stderr)
		}
	}
	t.Setenv("KUBECONFIG", kubeconfig+string(filepath.ListSeparator)+filepath.Join(t.TempDir(), "none"))
	if code, _, stderr := kapokRun("bench"); code != 1 || !strings.Contains(stderr, "no server at http://127.0.0.1:1: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if code, _, stderr := kapokRun("bench"); code != 1 || !strings.Contains(stderr, "is empty or does not exist") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The same measure as a table and as JSON; progress goes elsewhere.
func TestBench(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	s, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	args := []string{"bench", "--kubeconfig", file, "--scale=small", "--measure=connect,create", "--duration=100ms"}
	code, stdout, stderr := kapokRun(args...)
	if code != 0 || !strings.Contains(stdout, "\ncreate, 256 workers ") || !strings.HasPrefix(stdout, "server   v1.37.") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) != 6 || !regexp.MustCompile(`^\[1/6\] +\d+s  install$`).MatchString(lines[0]) || strings.Contains(stderr, "\x1b") {
		t.Errorf("progress:\n%s", stderr)
	}
	code, stdout, _ = kapokRun(append(args, "-o", "json", "--connections=own")...)
	var report bench.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v:\n%s", code, err, stdout)
	}
	if report.Version != bench.Version || len(report.Measures) != 4 || !report.Load.OwnConnections || report.Load.Scale != bench.Small {
		t.Errorf("%+v", report)
	}
}

// Ctrl-C ends it, and it clears away first.
func TestBenchInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	p := launch(t, "bench", "--kubeconfig", s.kubeconfig, "--measure=create", "--duration=1h")
	marked := func() int {
		t.Helper()
		list, err := s.CoreV1().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			Param("labelSelector", "kapok.dev/bench").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(list, []byte(`"kapok.dev/bench":`))
	}
	for marked() == 0 {
		select {
		case <-p.done:
			t.Fatalf("ended: %v\n%s", p.err, p.out)
		case <-time.After(time.Millisecond):
		}
	}
	p.Process.Signal(syscall.SIGINT)
	if code, out := p.end(t); code != 1 || !strings.HasSuffix(out, "\nkapok: interrupted; the objects it had created are removed\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if n := marked(); n != 0 {
		t.Errorf("definitions that are left: %d", n)
	}
}

// On a terminal, progress is one line that changes.
func TestProgressLine(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		l := &progressLine{out: &out, terminal: terminal, begin: time.Now()}
		l.show(bench.Progress{Step: 1, Steps: 10, Title: "get"})
		l.show(bench.Progress{Step: 1, Steps: 10, Title: "get", Done: 0.5})
		l.clear()
		want := "[ 1/10]    0s  get\n"
		if terminal {
			want = "\r[ 1/10]    0s  get   0%\x1b[K\r[ 1/10]    0s  get  50%\x1b[K\r\x1b[K"
		}
		if out.String() != want {
			t.Errorf("%q", out.String())
		}
	}
}
