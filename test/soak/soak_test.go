//go:build linux

// Package soak runs the server for a long time, under mixed load and with restarts, and checks that
// it stays stable: every response correct (see package linear), memory and goroutines constant, no
// request lost while files are replaced and the server is upgraded.
//
//	go test ./test/soak -v -soak 30m -timeout 1h
//
// Without the flag it runs for seconds, to check the test itself.
package soak

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/linear"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var soak = flag.Duration("soak", 0, "how long the load goes on; 0 for a few seconds")

// kapok is the program of this module.
var kapok string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	kapok = filepath.Join(dir, "kapok")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", kapok, "../../cmd/kapok").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// lives is the number of starts of the server: it ends gracefully, then by SIGKILL.
const lives = 3

// TestSoak runs a process three times on one data directory, each time with periods of load, after
// each of which the idle process is measured.
func TestSoak(t *testing.T) {
	stretch, stretches := time.Second, 1
	if *soak > 0 {
		stretch = min(time.Minute, *soak/12)
		stretches = max(int(*soak/stretch)/lives, 4)
	}
	dir, seed := t.TempDir(), seeds.Of(t)
	for life := range lives {
		p := launch(t, kapok, dir)
		var measured []measure
		for i := range stretches {
			p.load(t, seed, stretch)
			seed++ // its namespace is new, too
			m := p.rest(t)
			t.Logf("life %d, after %v: %v", life+1, time.Duration(i+1)*stretch, m)
			measured = append(measured, m)
		}
		if *soak > 0 {
			flat(t, measured)
		}
		signal := syscall.SIGTERM
		if life%2 == 1 {
			signal = syscall.SIGKILL
		}
		p.end(t, signal)
	}
}

// flat compares the end with the measurement after a third of the time: by then the history in
// memory has its maximum size.
func flat(t *testing.T, measured []measure) {
	t.Helper()
	first, last := measured[len(measured)/3], measured[len(measured)-1]
	if last.goroutines > first.goroutines+5 {
		t.Errorf("goroutines grow: %d, then %d", first.goroutines, last.goroutines)
	}
	if limit := first.memory + first.memory/4 + 8<<20; last.memory > limit {
		t.Errorf("memory grows: %v, then %v", first, last)
	}
	if last.files > first.files+5 {
		t.Errorf("open files grow: %d, then %d", first.files, last.files)
	}
}

// A process is a running server.
type process struct {
	*exec.Cmd
	config *rest.Config
	out    bytes.Buffer
	done   chan struct{}
}

func launch(t *testing.T, binary, dir string, flags ...string) *process {
	t.Helper()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	_ = os.Remove(kubeconfig)
	flags = append([]string{"up", "--listen=127.0.0.1:0", "--service-accounts=false", "--controllers=", "--data-dir", dir}, flags...)
	p := &process{Cmd: exec.Command(binary, flags...), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { p.Process.Kill(); <-p.done })
	p.until(t, "it serves", func() (ready bool) {
		var err error
		p.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
		return err == nil
	})
	return p
}

// until waits for a condition, and ends the test if the process ends before.
func (p *process) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-p.done:
			t.Fatalf("the server ended by itself: %v\n%s", p.ProcessState, &p.out)
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// load runs a period of all operations of clients, and checks their history.
func (p *process) load(t *testing.T, seed uint64, d time.Duration) {
	t.Helper()
	e := &linear.Endpoint{Name: "kapok up"}
	if err := e.Serve(p.config); err != nil {
		t.Fatal(err)
	}
	report := linear.Run(t, linear.Config{Endpoints: []*linear.Endpoint{e}, Seed: seed, Duration: d, Watchers: 4, Settle: 2 * time.Minute})
	if err := e.Serve(nil); err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if err := linear.Check(report); err != nil {
		t.Error(err)
	}
}

// A measure has the resources of an idle process.
type measure struct {
	memory     int64 // RssAnon, in bytes
	goroutines int
	files      int // number of open files
}

func (m measure) String() string {
	return fmt.Sprintf("%.1f MB anonymous, %d goroutines, %d open files", float64(m.memory)/1e6, m.goroutines, m.files)
}

var (
	rssAnon    = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)
	goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
)

// rest waits until the goroutines of the load have ended, and measures when their number is
// minimal, as some come and go all the time; so does memory.
func (p *process) rest(t *testing.T) (m measure) {
	t.Helper()
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	m.goroutines = math.MaxInt
	same := 0
	p.until(t, "the server is at rest", func() bool {
		now := number(t, goroutines, get(t, client, p.config.Host+"/metrics"))
		if same++; now < m.goroutines {
			m.goroutines, same = now, 0
		}
		return same > 50
	})
	// The server gives memory back some seconds after a load.
	m.memory = p.memory(t)
	for least := time.Now(); *soak > 0 && time.Since(least) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		if now := p.memory(t); now < m.memory {
			m.memory, least = now, time.Now()
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m.files = len(files)
	return m
}

// memory returns the anonymous memory of the process.
func (p *process) memory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return int64(number(t, rssAnon, status)) << 10
}

func get(t *testing.T, client *http.Client, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return data
}

func number(t *testing.T, form *regexp.Regexp, text []byte) int {
	t.Helper()
	found := form.FindSubmatch(text)
	if found == nil {
		t.Fatalf("nothing like %s in\n%s", form, text)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// end ends the process and waits for it.
func (p *process) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the server has not ended two minutes after %v", signal)
	}
}
