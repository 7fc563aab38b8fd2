package replicas

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/linear"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestLinear checks that the API is linearizable under faults of servers and members, and that
// watches that continue on any server miss nothing.
func TestLinear(t *testing.T) {
	duration := time.Minute
	if *long {
		duration = 5 * time.Minute
	}
	c := startCluster(t, 3)
	// One of them keeps almost no history in memory, and reads it from etcd.
	forgetful := c.startServer(t, func(o *kapok.Options) { o.HistoryMemory = 20_000 })
	n := newNemesis(t, c, append(c.startServers(t, 2), forgetful))
	config := linear.Config{
		Endpoints: n.endpoints,
		Duration:  duration, Operations: 1000, Clients: 12, Watchers: 3,
		KeyLife: 200, // an operation of unknown outcome counts until its key is replaced
		Settle:  time.Minute,
	}
	config.Nemeses = []linear.Nemesis{
		linear.Every(2*time.Second, n.disturb(n.ofMembers())),
		linear.Every(2*time.Second, n.disturb(n.ofServers())),
	}
	report := linear.Run(t, config)
	t.Log(report)
	t.Log(n.done)
	if len(n.done) < 5 {
		t.Error("too few faults")
	}
	begin := time.Now()
	if err := linear.Check(report); err != nil {
		t.Error(err)
	}
	t.Logf("judged in %v", time.Since(begin).Round(time.Millisecond))
}

// TestLinearCompacted compacts etcd continuously, including the history that a disconnected server
// would need.
func TestLinearCompacted(t *testing.T) {
	duration := 15 * time.Second
	if *long {
		duration = 2 * time.Minute
	}
	c := startCluster(t, 1)
	servers := c.startServers(t, 3)
	n := newNemesis(t, c, servers[:2])
	witness := &linear.Endpoint{Name: "witness"}
	if err := n.serve(witness, servers[2]); err != nil {
		t.Fatal(err)
	}
	etcd := c.client(t)
	partition := fault{"partition of a server, and compaction", func(ctx context.Context, random *rand.Rand) error {
		s := n.server(random)
		s.reach((*line).cut)
		defer s.reach((*line).heal)
		n.wait(random)
		response, err := etcd.Get(ctx, "/")
		if err == nil {
			_, err = etcd.Compact(ctx, response.Header.Revision)
		}
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil // compacted already
		}
		return err
	}}
	config := linear.Config{
		Endpoints: n.endpoints, Witness: witness,
		Duration: duration, Watchers: 6, KeyLife: 200, Settle: time.Minute,
		NoDeletes: true, // no watcher may see them
		Nemeses:   []linear.Nemesis{linear.Every(2*time.Second, n.disturb([]fault{partition}))},
	}
	// It is very rare that not even the witness saw a write of unknown outcome.
	for range 3 {
		report := linear.Run(t, config)
		t.Log(report)
		t.Log(n.done)
		err := linear.Check(report)
		if err == nil {
			return
		}
		if t.Log(err); !errors.Is(err, linear.ErrUndecided) {
			break
		}
		config.Seed = report.Seed + 1
	}
	t.Fail()
}
