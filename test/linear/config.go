package linear

import (
	"context"
	"math/rand/v2"
	"time"
)

// Config says what is to be done. Fields that are zero have their defaults.
type Config struct {
	// Endpoints lead to one server, or to replicas of it. At least one is needed, and
	// all must serve at the beginning.
	Endpoints []*Endpoint
	// Seed makes the choices of clients, watchers and nemeses. What comes of them
	// depends on time, too. 0 picks one.
	Seed uint64
	// Duration is how long the clients work. Default: 3 s.
	Duration time.Duration
	// Operations is how many they do at least, even if it takes longer. Default: 100.
	Operations int
	// Clients work at the same time. Default: 8.
	Clients int
	// Watchers follow each of the two kinds. Default: 2. All but the first one break
	// off and go on elsewhere all the time.
	Watchers int
	// Keys are used at the same time. Default: 6.
	Keys int
	// KeyLife is the number of operations after which a key is replaced by a new
	// one. Default: 1000.
	KeyLife int
	// NoDeletes leaves out deletions, so that the order of all writes is known even if
	// no watcher was told of some of them.
	NoDeletes bool
	// Timeout is how long a client waits for an answer. Default: 5 s.
	Timeout time.Duration
	// Settle is how long the watchers may take in the end to come up to the present,
	// and the endpoints to serve. Default: 30 s.
	Settle time.Duration
	// Nemeses run beside the clients.
	Nemeses []Nemesis
}

// Nemesis disturbs the system until the context is over, and leaves it whole: when
// it returns, all endpoints serve, or will soon. An error fails the test.
type Nemesis func(ctx context.Context, random *rand.Rand) error

// Every makes a nemesis that does something again and again, with pauses up to a
// duration in between. It is given a context that does not end in the middle of it.
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

func (c *Config) complete() {
	c.Seed = either(c.Seed, uint64(time.Now().UnixNano()))
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
