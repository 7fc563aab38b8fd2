package linear

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

// Config configures a run. Zero fields have their defaults.
type Config struct {
	// Endpoints lead to one server, or to its replicas. At least one is required, and all must
	// serve at the beginning.
	Endpoints []*Endpoint
	// Witness leads to a server that no nemesis disturbs. A watcher of each kind stays there and sees
	// all writes, whatever the others miss. Clients do not use it. Default: none.
	Witness *Endpoint
	// Seed determines the choices of clients, watchers and nemeses; their outcomes depend on timing
	// too. Two runs on a server need different ones. Default: that of the test.
	Seed uint64
	// Duration is the time for which the clients run. Default: 3 s.
	Duration time.Duration
	// Operations is the minimum number of operations, which can prolong the run. Default: 100.
	Operations int
	// Clients is the number of concurrent clients. Default: 8.
	Clients int
	// Watchers is the number of watchers of each of the two kinds. Default: 2. All but the first
	// one keep reconnecting to random endpoints.
	Watchers int
	// Keys is the number of keys in use at the same time. Default: 6.
	Keys int
	// KeyLife is the number of operations after which a key is replaced by a new
	// one. Default: 1000.
	KeyLife int
	// NoDeletes excludes deletes, so that the order of all writes is known even if no watcher saw
	// some of them.
	NoDeletes bool
	// Unreadable allows reads to return 500, because stored objects can be unreadable at times.
	Unreadable bool
	// Timeout limits the time that a client waits for a response. Default: 5 s.
	Timeout time.Duration
	// Settle bounds the time at the end until the watchers have received everything, and the
	// endpoints serve. Default: 30 s.
	Settle time.Duration
	// Nemeses run concurrently with the clients.
	Nemeses []Nemesis
}

// A Nemesis disturbs the system until the context is done, and repairs it: when it returns, all
// endpoints serve, or will soon. An error fails the test.
type Nemesis func(ctx context.Context, random *rand.Rand) error

// Every returns a Nemesis that calls do repeatedly, with random pauses of up to a duration. The
// context of do is not cancelled during a call.
func Every(pause time.Duration, something Nemesis) Nemesis {
	return func(ctx context.Context, random *rand.Rand) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Duration(random.Int64N(int64(pause)))):
			}
			if err := something(context.WithoutCancel(ctx), random); err != nil {
				return err
			}
		}
	}
}

// all returns all endpoints, the witness included.
func (c *Config) all() []*Endpoint {
	if c.Witness == nil {
		return c.Endpoints
	}
	return append(slices.Clone(c.Endpoints), c.Witness)
}

func (c *Config) complete(t testing.TB) {
	if c.Seed == 0 {
		c.Seed = seeds.Of(t)
	}
	c.Duration = either(c.Duration, 3*time.Second)
	c.Operations = either(c.Operations, 100)
	c.Clients = either(c.Clients, 8)
	c.Watchers = either(c.Watchers, 2)
	c.Keys = either(c.Keys, 6)
	c.KeyLife = either(c.KeyLife, 1000)
	c.Timeout = either(c.Timeout, 5*time.Second)
	c.Settle = either(c.Settle, 30*time.Second)
}

func either[T comparable](value, otherwise T) T {
	if value == *new(T) {
		return otherwise
	}
	return value
}
