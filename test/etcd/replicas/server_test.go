package replicas

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A server is a Kapok with lines to each member of an etcd, and a front line for clients whose
// address stays the same after a restart.
type server struct {
	*api
	options kapok.Options
	lines   []*line
	front   *line

	mu    sync.Mutex
	kapok *kapok.Server // nil while dead
}

// startServer starts a server, and waits until it is connected to etcd.
func (c *cluster) startServer(t testing.TB, change ...func(*kapok.Options)) *server {
	t.Helper()
	s := &server{front: newLine(t, "")}
	var addresses []string
	for i := range c.configs {
		l := c.way(t, i)
		s.lines = append(s.lines, l)
		addresses = append(addresses, l.address())
	}
	s.options = kapok.Options{
		Store:  "etcd://" + strings.Join(addresses, ","),
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),

		Accounts: kapok.AccountOptions{None: true}, // there must be no other writer
	}
	for _, f := range change {
		f(&s.options)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.front.cut() // closing an open connection would take a second
		s.reach((*line).heal)
		if err := s.stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	s.api = newAPI(t, s.config(t))
	return s
}

// startServers starts several servers, one after the other: the first one leads.
func (c *cluster) startServers(t testing.TB, count int, change ...func(*kapok.Options)) (all []*server) {
	t.Helper()
	for range count {
		all = append(all, c.startServer(t, change...))
	}
	return all
}

// start starts the server again behind the same front line.
func (s *server) start(ctx context.Context) error {
	k, err := kapok.Start(context.WithoutCancel(ctx), s.options)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.kapok = k
	s.mu.Unlock()
	s.front.lead(k.Address())
	return nil
}

// stop stops the server gracefully.
func (s *server) stop(ctx context.Context) error {
	s.mu.Lock()
	k := s.kapok
	s.kapok = nil
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	return k.Shutdown(ctx)
}

// die ends the server without a graceful shutdown. Afterwards the server's lines are repaired, for
// the next one.
func (s *server) die() {
	s.front.cut()
	s.reach((*line).cut)
	hurry, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.stop(hurry) // it has no clients any more
	s.reach((*line).heal)
}

// reach calls a function for all lines between the server and etcd.
func (s *server) reach(do func(*line)) {
	for _, l := range s.lines {
		do(l)
	}
}

// config returns a client configuration for the front line. It is valid for any server there, as
// all servers accept the same credentials.
func (s *server) config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.kapok.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Host = "https://" + s.front.address()
	return config
}

// eventually waits for a condition in real time.
func eventually(t testing.TB, patience time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for tick := time.Tick(10 * time.Millisecond); !ok(); <-tick {
		if time.Since(begin) > patience {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
	return time.Since(begin)
}
