package oracle

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/scenarios"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	RunControllerManager()
	RunScheduler()
	RunServer()
	flag.Parse()
	os.Exit(m.Run())
}

var playScenarios = flag.Bool("scenarios", false, "run TestScenarios")

// TestScenarios plays the scenarios with kube-controller-manager. With -rewrite, what it does
// becomes the outcomes; otherwise, it is compared with the present ones. It waits in real time.
func TestScenarios(t *testing.T) {
	if !*playScenarios {
		t.Skip("takes ten minutes: go test -run TestScenarios -scenarios -parallel 20 -timeout 30m")
	}
	klog.SetLogger(logr.Discard())
	all := worlds{parent: t, started: map[string]*scenarios.World{}}
	t.Run("all", func(t *testing.T) {
		scenarios.Run(t, scenarios.Options{
			Dir:    "../scenarios/testdata",
			Record: record.Value.String() == "true",
			Play: func(t *testing.T, flags []string, with func(*testing.T, scenarios.World)) {
				w, err := all.get(flags)
				if err != nil {
					t.Fatal(err)
				}
				with(t, *w)
			},
		})
	})
}

// worlds are servers with a kube-controller-manager each, by its flags. They end with the test.
type worlds struct {
	parent *testing.T

	mu      sync.Mutex
	started map[string]*scenarios.World
}

func (w *worlds) get(flags []string) (*scenarios.World, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := strings.Join(flags, " ")
	if world := w.started[key]; world != nil {
		return world, nil
	}
	dir := w.parent.TempDir()
	config, stop, err := StartServer(dir)
	if err != nil {
		return nil, err
	}
	w.parent.Cleanup(stop)
	log, err := os.Create(filepath.Join(dir, "controller-manager.log"))
	if err != nil {
		return nil, err
	}
	w.parent.Cleanup(func() { _ = log.Close() })
	manager, err := StartControllerManager(config, dir, log, flags...)
	if err != nil {
		return nil, err
	}
	w.parent.Cleanup(manager.Stop)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	metrics, err := scenarios.ServeMetrics(config, listener, "localhost", int32(listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		return nil, err
	}
	w.parent.Cleanup(metrics.Close)
	w.started[key] = &scenarios.World{Config: config, Settle: settle, Metrics: metrics}
	return w.started[key], nil
}

// settle waits until nothing has changed for a second and a half. Kubernetes' controllers wait for
// their caches and for pauses of up to a second in their queues.
func settle(ctx context.Context, busy func() bool) error {
	busy()
	for quiet := 0; quiet < 15; quiet++ {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if busy() {
			quiet = -1
		}
	}
	return nil
}
