package etcd_test

import (
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/versions"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{
		New: func(t *testing.T) func() (journal.Journal, error) {
			server := start(t)
			return func() (journal.Journal, error) { return etcd.Open(t.Context(), options(t, server)) }
		},
		OnePerResource: true,
		Sparse:         true,
		Plain:          true,
	})
}

// options returns the options of a journal on some servers.
func options(t *testing.T, servers ...*embed.Etcd) etcd.Options {
	opts := etcd.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Paths: kinds.Paths(), Decode: versions.DecodeProtobuf}
	for _, server := range servers {
		opts.Endpoints = append(opts.Endpoints, server.Clients[0].Addr().String())
	}
	return opts
}

// start starts an etcd of one member in this process.
func start(t *testing.T) *embed.Etcd {
	t.Helper()
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.LogLevel = "fatal"
	c.UnsafeNoFsync = true
	c.ListenClientUrls, c.AdvertiseClientUrls = anyPort, anyPort
	c.ListenPeerUrls, c.AdvertisePeerUrls = anyPort, anyPort
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = 10, 100
	server, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd is not ready after 30 s")
	}
	return server
}

// TestReplicas checks that two journals on one etcd fold the same entries in the same order,
// whichever of them writes.
func TestReplicas(t *testing.T) {
	server := start(t)
	var replicas [2]journal.Journal
	var twins [2]*journaltest.Twin
	for i := range replicas {
		j, err := etcd.Open(t.Context(), options(t, server))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		replicas[i], twins[i] = j, journaltest.NewTwin()
		if err := replicas[i].Recover(t.Context(), twins[i]); err != nil {
			t.Fatal(err)
		}
	}
	write := func(i, n int) (object.Revision, error) {
		k := object.Key{Resource: schema.GroupResource{Resource: "pods"}, Name: strconv.Itoa(n % 3)}
		o, err := object.New(k, map[string]any{"metadata": map[string]any{"uid": "u"}, "n": int64(n)}, 0, time.Unix(int64(n), 0))
		if err != nil {
			return 0, err
		}
		return replicas[i].Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: k, Prev: twins[i].Revision(k), Object: o}}})
	}
	var all sync.WaitGroup
	var wins atomic.Int64
	for w := range 6 {
		all.Go(func() {
			for n := range 50 {
				_, err := write(w%2, n)
				if conflict := (*journal.ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
					t.Error(err)
				} else if err == nil {
					wins.Add(1)
				}
			}
		})
	}
	all.Wait()
	// A server that has committed has applied all earlier entries.
	for i := range replicas {
		var err error
		for conflict := (*journal.ConflictError)(nil); ; {
			if _, err = write(i, 0); !errors.As(err, &conflict) {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := twins[0].Entries(), twins[1].Entries()
	if n := int(wins.Load()); len(first) < n+1 || len(second) != n+2 {
		t.Fatalf("%d writes, then one each; replicas have %d and %d entries", n, len(first), len(second))
	}
	for i := range first {
		a, b := first[i], second[i]
		if a.Key != b.Key || a.Revision != b.Revision || a.Prev != b.Prev || string(a.Object.Raw) != string(b.Object.Raw) {
			t.Fatalf("entry %d: %+v and %+v", i, a, b)
		}
	}
}
