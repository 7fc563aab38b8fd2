package fairness

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
)

// asked returns a request of an authenticated user without other groups.
func asked(user, verb string) *Request {
	return &Request{
		Attributes: &authz.Attributes{
			User: &authn.User{Name: user, Groups: []string{authn.Authenticated}}, Verb: verb,
			ResourceRequest: true, APIVersion: "v1", Resource: "pods", Namespace: "shop",
		},
		Reads:    true,
		Patience: 15 * time.Second,
	}
}

// TestNoUserStarves runs 1,000 concurrent lists of one user without a pause, and checks that the
// 99th percentile of another user's small gets is less than ten times that of an idle server.
// Without fairness it is more, or gets are rejected.
func TestNoUserStarves(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Config
		gets int
		want bool
	}{
		{name: "fair", gets: 1000, want: true},
		{name: "plain", opts: Config{Options: Options{Unfair: true}}, gets: 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(tc.opts)
				defer l.Close()
				idle, _ := modest(l, 1000)
				stop := make(chan struct{})
				var greedy sync.WaitGroup
				for i := range 1000 {
					greedy.Go(func() { flood(l, rand.New(rand.NewPCG(1, uint64(i))), stop) })
				}
				time.Sleep(time.Second)
				loaded, refused := modest(l, tc.gets)
				close(stop)
				greedy.Wait()
				t.Logf("p99 %s on an idle server, %s on a loaded one, %d rejected", idle, loaded, refused)
				if ok := loaded < 10*idle && refused == 0; ok != tc.want {
					t.Errorf("p99 %s on an idle server, %s on a loaded one, %d rejected", idle, loaded, refused)
				}
				if reading, writing := l.InFlight(); reading != 0 || writing != 0 {
					t.Errorf("%d reads and %d writes are still under way", reading, writing)
				}
			})
		})
	}
}

// modest sends gets one after another, each of which takes a millisecond to serve, and returns the
// 99th percentile of their durations, and the number of rejected ones.
func modest(l *Limiter, gets int) (p99 time.Duration, refused int) {
	var took []time.Duration
	for range gets {
		begin := time.Now()
		p, retryAfter := l.Enter(context.Background(), asked("modest", "get"))
		if retryAfter > 0 {
			refused++
			continue
		}
		time.Sleep(time.Millisecond)
		p.Leave()
		took = append(took, time.Since(begin))
		time.Sleep(7 * time.Millisecond)
	}
	if len(took) == 0 {
		return 0, refused
	}
	slices.Sort(took)
	return took[len(took)*99/100], refused
}

// flood sends lists as fast as the limiter admits them, until stop is closed.
func flood(l *Limiter, r *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		p, retryAfter := l.Enter(context.Background(), asked("greedy", "list"))
		if retryAfter > 0 {
			time.Sleep(time.Duration(retryAfter) * time.Second)
			continue
		}
		time.Sleep(5*time.Millisecond + time.Duration(r.IntN(10_000))*time.Microsecond)
		p.Leave()
	}
}
