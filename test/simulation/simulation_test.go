package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/linear"
	"github.com/kapok-dev/kapok/test/seeds"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	count = flag.Int("seeds", 20, "how many simulations are run, with a seed each")
	lasts = flag.Duration("lasts", 2*time.Second, "how long things fail in each, in virtual time")
)

// TestMain runs goroutines on one processor, so that runs of a seed are similar.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	klog.LogToStderr(false) // client-go logs each connection that is cut
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil // they log, and sleep for decades in a bubble
	os.Exit(m.Run())
}

// A world has the defects of a simulation that must fail.
type world struct {
	lies    string // suffix of the files whose syncs have no effect, always or sometimes
	odds    float64
	noFsync bool // the server does not sync
}

// simulate runs one simulation, and checks it. dir is for the few files that a server has besides
// its journal.
func simulate(t testing.TB, s seed, dir string, w world) (err error) {
	log := &events{begin: time.Now()}
	faults := forecast(s.of("weather"), *lasts)
	d := newDisk(s.of("disk"), faults, log)
	d.lies, d.odds = w.lies, w.odds
	m := &machine{
		seed: s.of("machine"), network: newNetwork(s.of("network"), log), disk: d, log: log, lasts: *lasts,
		options: kapok.Options{DataDir: dir, UnsafeNoFsync: w.noFsync},
	}
	m.options.Accounts.None = true // it would write config maps, too
	work := linear.Config{
		Seed: max(uint64(s), 1), Duration: *lasts, Operations: 1, Nemeses: []linear.Nemesis{m.disturb}, Unreadable: true,
		Clients: 2 + s.int("clients", 5), Keys: 2 + s.int("keys", 5), Watchers: 1 + s.int("watchers", 2),
	}
	forgetful := s.int("forgetful", 4) == 0
	if forgetful { // watchers have to list; a deletion that no watcher saw cannot be checked
		m.options.HistoryAge, m.options.HistoryMemory = time.Duration(1+s.int("age", 1000))*time.Millisecond, 10_000
		work.NoDeletes = true
		faults.fast = true // pebble starts a new log with a lock held that compaction needs, too
	}
	defer func() {
		if err == nil && !t.Failed() {
			return
		}
		t.Logf("disk: %v\n%s", faults, log)
	}()
	defer time.Sleep(10 * time.Second) // until data in the network has arrived
	if err := m.start(t.Context(), nil); err != nil {
		return err
	}
	defer func() { m.stop(context.Background()) }()
	config, transport := m.network.config()
	defer transport.CloseIdleConnections()
	endpoint := &linear.Endpoint{Name: "kapok"}
	if err := endpoint.Serve(config); err != nil {
		return err
	}
	work.Endpoints = []*linear.Endpoint{endpoint}
	household, err := newHousehold(config, s.of("household"))
	if err != nil {
		return err
	}
	household.begin(t.Context())
	defer household.close()
	work.Nemeses = append(work.Nemeses, household.work)
	report := linear.Run(t, work)
	t.Logf("%v; %d servers, %d crashes, %d syncs, forgetful %v", report, m.lives, m.crashes, m.disk.syncs, forgetful)
	settled := household.settle(t.Context())
	if err = linear.Check(report); forgetful && errors.Is(err, linear.ErrUndecided) {
		t.Log(err)
		return settled
	}
	return errors.Join(settled, err)
}

func TestSimulation(t *testing.T) {
	first := seeds.Of(t)
	for n := range *count {
		s := seed(first + uint64(n))
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				if err := simulate(t, s, dir, world{}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFilledDisk checks that on a disk that other programs fill creates fail and deletes succeed.
func TestFilledDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := &events{begin: time.Now()}
		s := seed(seeds.Of(t))
		full := &weather{spell: []spell{{from: 100 * time.Millisecond, to: 3 * time.Second, what: "filled", odds: 1}}}
		m := &machine{network: newNetwork(s, log), disk: newDisk(s, full, log), log: log, options: kapok.Options{DataDir: dir}}
		m.options.Accounts.None = true
		if err := m.start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		defer func() { m.stop(context.Background()) }()
		config, transport := m.network.config()
		defer transport.CloseIdleConnections()
		endpoint := &linear.Endpoint{Name: "kapok"}
		if err := endpoint.Serve(config); err != nil {
			t.Fatal(err)
		}
		begin := func(context.Context, *rand.Rand) error {
			now := time.Now()
			full.begin.Store(&now)
			return nil
		}
		report := linear.Run(t, linear.Config{
			Endpoints: []*linear.Endpoint{endpoint}, Seed: uint64(s), Duration: 4 * time.Second, Clients: 4,
			Nemeses: []linear.Nemesis{begin},
		})
		// Logs have allocated space in advance.
		refused := time.Duration(math.MaxInt64)
		for _, o := range report.Operations {
			if o.Verb == linear.Create && o.Outcome == linear.Refused {
				refused = min(refused, o.Return)
			}
		}
		done := map[linear.Verb]int{} // since then, while the disk is full
		for _, o := range report.Operations {
			if o.Call > refused && o.Return < 2900*time.Millisecond && o.Outcome == linear.Done {
				done[o.Verb]++
			}
		}
		if done[linear.Create] > 0 || done[linear.Delete] == 0 {
			t.Errorf("seed %d: on a full disk were done %v\n%s", s, done, log)
		}
		if err := linear.Check(report); err != nil {
			t.Error(err)
		}
	})
}

// TestFindsLostSync checks that a disk whose syncs have no effect, and a server that does not sync,
// lose acknowledged writes. Either the journal reports it at the next start, or the check of the
// history does.
func TestFindsLostSync(t *testing.T) {
	const (
		damaged = "the journal reports damaged files"
		lost    = "an acknowledged write is lost"
	)
	for name, test := range map[string]struct {
		world
		says string
	}{
		"some syncs of any file do nothing":      {world{odds: 0.5}, damaged},
		"syncs of logs do nothing":               {world{lies: ".log", odds: 1}, lost},
		"one of ten syncs of a log does nothing": {world{lies: ".log", odds: 0.1}, ""},
		"the server does not sync":               {world{noFsync: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			const enough = 100
			first := seeds.Of(t)
			for s := first; s < first+enough; s++ {
				dir := t.TempDir()
				var found []string
				synctest.Test(t, func(t *testing.T) { found = complaints(t, seed(s), dir, test.world) })
				for _, complaint := range found {
					if strings.Contains(complaint, test.says) {
						t.Logf("seed %d: %.200s", s, complaint)
						return
					}
				}
			}
			t.Fatalf("seeds %d to %d: nothing was found that says %q", first, first+enough-1, test.says)
		})
	}
}

// complaints runs a simulation that is to fail, and returns why it has.
func complaints(t *testing.T, s seed, dir string, w world) []string {
	listener := &listener{TB: t}
	var done sync.WaitGroup
	done.Go(func() { // which Fatal ends
		if err := simulate(listener, s, dir, w); err != nil {
			listener.Errorf("%v", err)
		}
	})
	done.Wait()
	return listener.heard
}

// A listener takes note of what a test would fail for.
type listener struct {
	testing.TB
	mu    sync.Mutex
	heard []string
}

func (l *listener) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func (l *listener) Fatal(args ...any) {
	l.Errorf("%s", strings.TrimSpace(fmt.Sprintln(args...)))
	runtime.Goexit()
}

func (l *listener) Failed() bool        { return false }
func (l *listener) Logf(string, ...any) {}
