package linear

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var long = flag.Bool("long", false, "a minute each rather than seconds")

// judge runs a workload, and checks its size and its history.
func judge(t *testing.T, config Config) {
	t.Helper()
	config.Duration, config.Operations = 2*time.Second, 1000
	config.Timeout, config.Settle = 30*time.Second, 2*time.Minute // for a busy machine
	if *long {
		config.Duration = time.Minute
	}
	// It is rare that no watcher saw a write of unknown outcome, and rarer that this happens twice.
	for range 3 {
		report := Run(t, config)
		t.Log(report)
		begin := time.Now()
		err := Check(report)
		t.Logf("judged in %v", time.Since(begin).Round(time.Millisecond))
		if err == nil {
			return
		}
		if t.Log(err); !errors.Is(err, ErrUndecided) {
			break
		}
		config.Seed = report.Seed + 1
	}
	t.Fail()
}

func start(t *testing.T, options kapok.Options) *kapok.Server {
	t.Helper()
	options.Accounts.None = true // there must be no other writer
	server, err := kapok.Start(context.WithoutCancel(t.Context()), options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestMemory(t *testing.T) {
	server := start(t, kapok.Options{})
	defer server.Stop()
	e := &Endpoint{Name: "memory"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	judge(t, Config{Endpoints: []*Endpoint{e}})
}

// TestSocket has two endpoints of one server on a disk: one with a socket, and one without.
func TestSocket(t *testing.T) {
	server := start(t, kapok.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	defer server.Stop()
	outside, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	var endpoints []*Endpoint
	for _, config := range []*rest.Config{server.Config(), outside} {
		e := &Endpoint{Name: config.Host}
		if err := e.Serve(config); err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints, e)
	}
	judge(t, Config{Endpoints: endpoints})
}

// TestForgetful has a server with a very short history: a late watcher has to list.
func TestForgetful(t *testing.T) {
	server := start(t, kapok.Options{HistoryMemory: 20_000})
	defer server.Stop()
	e := &Endpoint{Name: "forgetful"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	judge(t, Config{Endpoints: []*Endpoint{e}, Watchers: 3, NoDeletes: true})
}

// TestCompaction compacts the history continuously.
func TestCompaction(t *testing.T) {
	server := start(t, kapok.Options{DataDir: t.TempDir()})
	defer server.Stop()
	e := &Endpoint{Name: "compacted"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	compact := func(ctx context.Context, _ *rand.Rand) error { return server.Compact(ctx) }
	judge(t, Config{Endpoints: []*Endpoint{e}, Watchers: 3, NoDeletes: true, Nemeses: []Nemesis{Every(200*time.Millisecond, compact)}})
}

// TestRestarts restarts a server on a disk continuously, with and without a grace for requests
// under way.
func TestRestarts(t *testing.T) {
	options := kapok.Options{DataDir: t.TempDir()}
	server := start(t, options)
	defer func() { server.Stop() }()
	e := &Endpoint{Name: "pebble"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	restarts := 0
	restart := func(ctx context.Context, random *rand.Rand) (err error) {
		restarts++
		patience, cancel := context.WithCancel(ctx)
		defer cancel()
		if random.IntN(2) == 0 {
			cancel()
		}
		if err := server.Shutdown(patience); err != nil {
			return err
		}
		if server, err = kapok.Start(ctx, options); err != nil {
			return err
		}
		return e.Serve(server.Config())
	}
	judge(t, Config{Endpoints: []*Endpoint{e}, Nemeses: []Nemesis{Every(300*time.Millisecond, restart)}})
	t.Logf("%d restarts", restarts)
	if restarts == 0 {
		t.Error("there was no restart")
	}
}
