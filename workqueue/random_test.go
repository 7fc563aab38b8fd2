package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
	"github.com/kapok-dev/kapok/workqueue"

	clientgo "k8s.io/client-go/util/workqueue"
)

// TestLikeClientGo takes random histories through a queue and through client-go's: both hand out
// the same keys at the same times.
func TestLikeClientGo(t *testing.T) {
	seed := seeds.Of(t)
	for n := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, n))
			ours := workqueue.New(workqueue.Options[int]{RateLimiter: workqueue.ExponentialBackoff[int](time.Millisecond, time.Second)})
			theirs := clientgo.NewTypedRateLimitingQueue(clientgo.NewTypedItemExponentialFailureRateLimiter[int](time.Millisecond, time.Second))
			both := func(do func(clientgo.TypedRateLimitingInterface[int])) {
				do(ours)
				do(theirs)
				synctest.Wait()
			}
			var history []string
			var busy []int
			for range 200 {
				key := random.IntN(8)
				switch op := random.IntN(10); op {
				case 0, 1:
					history = append(history, fmt.Sprint("add ", key))
					both(func(q clientgo.TypedRateLimitingInterface[int]) { q.Add(key) })
				case 2:
					// Whole milliseconds, each once: which of two keys comes first that are due at
					// the same time, client-go leaves to chance.
					after := time.Duration(random.IntN(50)) * 7 * time.Millisecond
					after += time.Duration(len(history)) * time.Microsecond
					history = append(history, fmt.Sprint("add ", key, " after ", after))
					both(func(q clientgo.TypedRateLimitingInterface[int]) { q.AddAfter(key, after) })
				case 3:
					history = append(history, fmt.Sprint("add limited ", key))
					both(func(q clientgo.TypedRateLimitingInterface[int]) { q.AddRateLimited(key) })
					time.Sleep(time.Microsecond)
				case 4:
					history = append(history, fmt.Sprint("forget ", key))
					both(func(q clientgo.TypedRateLimitingInterface[int]) { q.Forget(key) })
				case 5:
					pause := time.Duration(random.IntN(20_000)) * time.Microsecond
					history = append(history, fmt.Sprint("sleep ", pause))
					time.Sleep(pause)
				case 6, 7:
					if ours.Len() != theirs.Len() {
						t.Fatalf("%d are ready, with client-go %d, after %q", ours.Len(), theirs.Len(), history)
					}
					if ours.Len() == 0 {
						continue
					}
					got, _ := ours.Get()
					want, _ := theirs.Get()
					history = append(history, fmt.Sprint("get ", want))
					if got != want {
						t.Fatalf("got %d, with client-go %d, after %q", got, want, history)
					}
					busy = append(busy, got)
				default:
					if len(busy) == 0 {
						continue
					}
					n := random.IntN(len(busy))
					done := busy[n]
					busy = append(busy[:n], busy[n+1:]...)
					history = append(history, fmt.Sprint("done ", done))
					both(func(q clientgo.TypedRateLimitingInterface[int]) { q.Done(done) })
				}
				synctest.Wait()
				if got, want := ours.NumRequeues(key), theirs.NumRequeues(key); got != want {
					t.Fatalf("%d requeues, with client-go %d, after %q", got, want, history)
				}
			}
			both(func(q clientgo.TypedRateLimitingInterface[int]) { q.ShutDown() })
			for {
				got, gotEnd := ours.Get()
				want, wantEnd := theirs.Get()
				if got != want || gotEnd != wantEnd {
					t.Fatalf("at the end got %d %v, with client-go %d %v, after %q", got, gotEnd, want, wantEnd, history)
				}
				if gotEnd {
					return
				}
			}
		})
	}
}

// TestWorkers has several goroutines add and work at a time: each addition is seen by a worker that
// began after it, and no two have the same key.
func TestWorkers(t *testing.T) {
	seed := seeds.Of(t)
	const keys, adders, workers, each = 16, 4, 4, 2000
	q := workqueue.New(workqueue.Options[int]{Group: func(key int) string { return fmt.Sprint(key % 3) }})
	var state [keys]struct{ added, seen, busy atomic.Int64 }
	done := make(chan struct{})
	for w := range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				s := &state[key]
				if s.busy.Add(1) != 1 {
					t.Errorf("worker %d has a key that another one has", w)
				}
				s.seen.Store(s.added.Load())
				s.busy.Add(-1)
				q.Done(key)
			}
		}()
	}
	for a := range adders {
		go func() {
			defer func() { done <- struct{}{} }()
			random := rand.New(rand.NewPCG(seed, uint64(a)))
			for range each {
				key := random.IntN(keys)
				state[key].added.Add(1)
				q.AddWithOpts(workqueue.AddOpts{
					Priority: random.IntN(3), After: time.Duration(random.IntN(2)) * time.Microsecond,
				}, key)
			}
		}()
	}
	for range adders {
		<-done
	}
	for key := range keys {
		q.Add(key) // what is delayed would be dropped
	}
	q.ShutDownWithDrain()
	for range workers {
		<-done
	}
	for key := range state {
		if added, seen := state[key].added.Load(), state[key].seen.Load(); added != seen {
			t.Errorf("of %d additions of %d, %d were seen", added, key, seen)
		}
	}
}
