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

var (
	long = flag.Bool("long", false, "a minute each rather than seconds")
	seed = flag.Uint64("seed", 0, "of what clients and nemeses do; 0 picks one")
)

// judge runs a workload, and checks that it was one.
func judge(t *testing.T, config Config) {
	t.Helper()
	config.Seed, config.Duration, config.Operations = *seed, 2*time.Second, 1000
	if *long {
		config.Duration = time.Minute
	}
	// It is rare that nobody was told of a write of unknown outcome, and rarer that it is so twice.
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
	options.Accounts.None = true // nobody else writes what is judged
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

// TestSocket has two endpoints to one server on a disk: a socket, and none.
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

// TestForgetful has a server with hardly any history: who comes late is told to list.
func TestForgetful(t *testing.T) {
	server := start(t, kapok.Options{HistoryMemory: 20_000})
	defer server.Stop()
	e := &Endpoint{Name: "forgetful"}
	if err := e.Serve(server.Config()); err != nil {
		t.Fatal(err)
	}
	judge(t, Config{Endpoints: []*Endpoint{e}, Watchers: 3, NoDeletes: true})
}

// TestCompaction forgets history all the time.
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

// TestRestarts stops and starts a server on a disk all the time, with and without
// patience for requests that are under way.
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
