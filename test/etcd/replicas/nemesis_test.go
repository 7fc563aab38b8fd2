package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/linear"

	"k8s.io/client-go/rest"
)

// A nemesis injects faults of servers and members, and counts them.
type nemesis struct {
	cluster   *cluster
	servers   []*server
	endpoints []*linear.Endpoint // of the servers
	config    *rest.Config       // of all of them, except the address

	mu   sync.Mutex
	done map[string]int
}

func newNemesis(t *testing.T, c *cluster, servers []*server) *nemesis {
	t.Helper()
	n := &nemesis{cluster: c, servers: servers, config: servers[0].config(t), done: map[string]int{}}
	for i, s := range servers {
		e := &linear.Endpoint{Name: fmt.Sprint("server", i)}
		n.endpoints = append(n.endpoints, e)
		if err := n.serve(e, s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// serve directs clients to a server.
func (n *nemesis) serve(e *linear.Endpoint, s *server) error {
	config := rest.CopyConfig(n.config)
	config.Host = "https://" + s.front.address()
	return e.Serve(config)
}

// A fault is a disturbance that ends.
type fault struct {
	name string
	do   func(context.Context, *rand.Rand) error
}

// disturb injects one of the faults.
func (n *nemesis) disturb(faults []fault) linear.Nemesis {
	return func(ctx context.Context, random *rand.Rand) error {
		f := faults[random.IntN(len(faults))]
		n.mu.Lock()
		n.done[f.name]++
		n.mu.Unlock()
		if err := f.do(ctx, random); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		return nil
	}
}

// wait waits for the duration of a fault.
func (n *nemesis) wait(random *rand.Rand) {
	<-time.After(time.Duration(random.Int64N(int64(4 * time.Second))))
}

// ofMembers are faults of etcd: mostly of one member at a time, while the others are a majority.
func (n *nemesis) ofMembers() []fault {
	return []fault{
		{"member killed", func(_ context.Context, random *rand.Rand) error {
			i := n.member(random)
			n.cluster.kill(i)
			n.wait(random)
			return n.cluster.start(i)
		}},
		{"member paused", func(_ context.Context, random *rand.Rand) error {
			i := n.member(random)
			n.cluster.ways(i, (*line).freeze)
			defer n.cluster.ways(i, (*line).heal)
			n.cluster.isolate(i)
			defer n.cluster.rejoin(i)
			n.wait(random)
			return nil
		}},
		{"member without the others", func(_ context.Context, random *rand.Rand) error {
			i := n.member(random)
			n.cluster.isolate(i)
			defer n.cluster.rejoin(i)
			n.wait(random)
			return nil
		}},
		{"no majority", func(_ context.Context, random *rand.Rand) error {
			for i := range n.cluster.configs {
				n.cluster.isolate(i)
				defer n.cluster.rejoin(i)
			}
			n.wait(random)
			return nil
		}},
		{"member without servers", func(_ context.Context, random *rand.Rand) error {
			i := n.member(random)
			n.cluster.ways(i, (*line).cut)
			defer n.cluster.ways(i, (*line).heal)
			n.wait(random)
			return nil
		}},
	}
}

// ofServers are faults of one server at a time.
func (n *nemesis) ofServers() []fault {
	return []fault{
		{"server killed", func(ctx context.Context, random *rand.Rand) error {
			i := random.IntN(len(n.servers))
			n.servers[i].die()
			return n.revive(ctx, random, i)
		}},
		{"server stopped gracefully", func(ctx context.Context, random *rand.Rand) error {
			i := random.IntN(len(n.servers))
			if err := n.servers[i].stop(ctx); err != nil {
				return err
			}
			return n.revive(ctx, random, i)
		}},
		{"server paused", func(_ context.Context, random *rand.Rand) error {
			s := n.server(random)
			s.front.freeze()
			defer s.front.heal()
			s.reach((*line).freeze)
			defer s.reach((*line).heal)
			n.wait(random)
			return nil
		}},
		{"server without etcd", func(_ context.Context, random *rand.Rand) error {
			s := n.server(random)
			s.reach((*line).cut)
			defer s.reach((*line).heal)
			n.wait(random)
			return nil
		}},
		{"server with an etcd that is silent", func(_ context.Context, random *rand.Rand) error {
			s := n.server(random)
			s.reach((*line).freeze)
			defer s.reach((*line).heal)
			n.wait(random)
			return nil
		}},
		{"connections of a server broken", func(_ context.Context, random *rand.Rand) error {
			s := n.server(random)
			s.reach((*line).cut)
			s.reach((*line).heal)
			return nil
		}},
	}
}

// revive starts a dead server again after a while, as soon as etcd allows it.
func (n *nemesis) revive(ctx context.Context, random *rand.Rand, i int) error {
	if err := n.endpoints[i].Serve(nil); err != nil {
		return err
	}
	n.wait(random)
	var errs []error
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		err := n.servers[i].start(ctx)
		if err == nil {
			return n.serve(n.endpoints[i], n.servers[i])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (n *nemesis) server(random *rand.Rand) *server { return n.servers[random.IntN(len(n.servers))] }

// member prefers the leader, whose loss has the largest effect.
func (n *nemesis) member(random *rand.Rand) int {
	if i := n.cluster.leader(); i >= 0 && random.IntN(2) == 0 {
		return i
	}
	return random.IntN(len(n.cluster.configs))
}
