package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/workqueue"

	clientgo "k8s.io/client-go/util/workqueue"
)

// A queue can stand where one of client-go is expected.
var _ clientgo.TypedRateLimitingInterface[string] = (*workqueue.Queue[string])(nil)

// take takes n keys, as one worker that never is done.
func take[K comparable](t *testing.T, q *workqueue.Queue[K], n int) (keys []K) {
	t.Helper()
	for range n {
		key, shutdown := q.Get()
		if shutdown {
			t.Fatalf("shut down after %v", keys)
		}
		keys = append(keys, key)
	}
	return keys
}

func expect[K comparable](t *testing.T, got []K, want ...K) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnce(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{})
	for range 3 {
		q.Add("a")
		q.Add("b")
	}
	if q.Len() != 2 {
		t.Errorf("%d keys are ready", q.Len())
	}
	expect(t, take(t, q, 2), "a", "b")

	// Added while a worker has it, a key comes back when the worker is done.
	q.Add("a")
	q.Add("a")
	if q.Len() != 0 {
		t.Error("a key is ready that a worker has")
	}
	q.Done("b")
	q.Done("b") // not being processed
	q.Done("c") // never added
	if q.Len() != 0 {
		t.Error("a key came back that was not added")
	}
	q.Done("a")
	expect(t, take(t, q, 1), "a")
	q.Done("a")
	if q.Len() != 0 {
		t.Error("a key came back twice")
	}
}

func TestPriorities(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{})
	add := func(priority int, keys ...string) { q.AddWithOpts(workqueue.AddOpts{Priority: priority}, keys...) }
	add(-100, "a", "b", "c", "d")
	q.Add("x")
	add(7, "z")
	add(0, "c")    // rises
	add(-200, "b") // stays
	expect(t, take(t, q, 5), "z", "x", "c", "a", "b")

	// Also between the ends of what a priority can be.
	add(math.MinInt, "lowest")
	add(math.MaxInt, "highest")
	expect(t, take(t, q, 1), "highest")

	// The highest of what was added meanwhile counts.
	add(3, "z")
	add(5, "z")
	add(4, "z")
	q.Done("z")
	if key, priority, _ := q.GetWithPriority(); key != "z" || priority != 5 {
		t.Errorf("got %q with %d", key, priority)
	}
	expect(t, take(t, q, 2), "d", "lowest")
}

// TestGroups has groups take turns, whatever their sizes.
func TestGroups(t *testing.T) {
	q := workqueue.New(workqueue.Options[string]{Group: func(key string) string {
		namespace, _, _ := strings.Cut(key, "/")
		return namespace
	}})
	for n := range 5 {
		q.Add(fmt.Sprint("big/", n))
	}
	q.Add("small/0")
	q.Add("tiny/0")
	expect(t, take(t, q, 2), "big/0", "small/0")
	q.Add("small/1") // it has had its turn
	expect(t, take(t, q, 6), "tiny/0", "big/1", "small/1", "big/2", "big/3", "big/4")
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		defer q.ShutDown()
		begin := time.Now()
		at := func(key string, seconds int) {
			t.Helper()
			expect(t, take(t, q, 1), key)
			if since := time.Since(begin); since != time.Duration(seconds)*time.Second {
				t.Errorf("%s came after %v", key, since)
			}
			q.Done(key)
		}
		q.AddAfter("late", time.Hour)
		q.AddAfter("c", 3*time.Second)
		q.AddAfter("b", 2*time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("late", 4*time.Second) // the earlier counts
		q.AddAfter("a", time.Minute)
		q.AddAfter("now", 0)
		q.Add("b") // and comes back
		q.AddWithOpts(workqueue.AddOpts{After: 5 * time.Second}, "low")
		q.AddWithOpts(workqueue.AddOpts{After: 5 * time.Second, Priority: 1}, "high")
		at("now", 0)
		at("b", 0)
		at("a", 1)
		at("b", 2)
		at("c", 3)
		at("late", 4)
		time.Sleep(time.Second)
		synctest.Wait()
		at("high", 5)
		at("low", 5)

		q.AddAfter("dropped", time.Second)
		q.ShutDown()
		time.Sleep(time.Minute)
		if key, shutdown := q.Get(); !shutdown {
			t.Errorf("%s came after the end", key)
		}
	})
}

func TestRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{RateLimiter: workqueue.ExponentialBackoff[string](time.Second, 5*time.Second)})
		defer q.ShutDown()
		for n, want := range []time.Duration{1, 2, 4, 5, 5} {
			begin := time.Now()
			q.AddRateLimited("a")
			expect(t, take(t, q, 1), "a")
			q.Done("a")
			if since := time.Since(begin); since != want*time.Second {
				t.Errorf("failure %d: waited for %v", n+1, since)
			}
		}
		if n := q.NumRequeues("a"); n != 5 {
			t.Errorf("%d failures are counted", n)
		}
		q.Forget("a")
		begin := time.Now()
		q.AddWithOpts(workqueue.AddOpts{RateLimited: true, After: time.Minute, Priority: 9}, "a")
		if key, priority, _ := q.GetWithPriority(); key != "a" || priority != 9 || time.Since(begin) != time.Second {
			t.Errorf("got %q with %d after %v", key, priority, time.Since(begin))
		}
	})
}

func TestShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		waiting := make(chan bool)
		go func() {
			_, shutdown := q.Get()
			waiting <- shutdown
		}()
		synctest.Wait()
		q.Add("a")
		if <-waiting {
			t.Error("shut down for no reason")
		}
		q.Add("b")
		q.ShutDown()
		q.Add("c")
		q.AddAfter("c", time.Second)
		if !q.ShuttingDown() {
			t.Error("it does not shut down")
		}
		expect(t, take(t, q, 1), "b")
		if key, shutdown := q.Get(); !shutdown {
			t.Errorf("got %q", key)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		q.Add("b")
		expect(t, take(t, q, 1), "a")
		q.Add("a") // before the end, so it comes back

		drained := make(chan struct{})
		go func() {
			q.ShutDownWithDrain()
			close(drained)
		}()
		synctest.Wait()
		open := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-drained:
				t.Fatalf("drained, and %s", why)
			default:
			}
		}
		open("there are a and b")
		expect(t, take(t, q, 1), "b")
		q.Done("b")
		open("there is a")

		// A worker that has nothing to do waits, as there may be more.
		key := make(chan string)
		go func() {
			k, _ := q.Get()
			key <- k
		}()
		synctest.Wait()
		q.Done("a")
		expect(t, []string{<-key}, "a")
		open("a is worked on again")
		q.Done("a")
		<-drained
		if _, shutdown := q.Get(); !shutdown {
			t.Error("there is something after the drain")
		}
	})
}

func TestShutDownEndsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Options[string]{})
		q.Add("a")
		take(t, q, 1)
		drained := make(chan struct{})
		go func() {
			q.ShutDownWithDrain()
			close(drained)
		}()
		synctest.Wait()
		q.ShutDown()
		<-drained
	})
}
