package fairness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hold enters requests without patience until one is rejected, and returns the admitted ones.
func hold(t *testing.T, l *Limiter, r *Request) []*Pass {
	t.Helper()
	impatient := *r
	impatient.Patience = time.Nanosecond
	var all []*Pass
	for range 10_000 {
		p, retryAfter := l.Enter(t.Context(), &impatient)
		if retryAfter > 0 {
			return all
		}
		all = append(all, &p)
	}
	t.Fatal("the limiter admits any number of requests")
	return nil
}

func leave(all []*Pass) {
	for _, p := range all {
		p.Leave()
	}
}

// TestWait waits for a free seat, until the patience ends, and until the client cancels.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		defer l.Close()
		held := hold(t, l, asked("bob", "get"))
		enter := func(ctx context.Context) (took time.Duration, ok bool) {
			begin := time.Now()
			r := asked("bob", "get")
			r.Patience = 5 * time.Second // other levels lend seats after 10 seconds
			p, retryAfter := l.Enter(ctx, r)
			p.Leave()
			return time.Since(begin), retryAfter == 0
		}
		if took, ok := enter(t.Context()); ok || took != 5*time.Second {
			t.Errorf("without a seat: %s, %t", took, ok)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if took, ok := enter(ctx); ok || took != 3*time.Second {
			t.Errorf("a client that cancels: %s, %t", took, ok)
		}
		time.AfterFunc(time.Second, held[0].Leave)
		if took, ok := enter(t.Context()); !ok || took != time.Second {
			t.Errorf("with a seat after 1 s: %s, %t", took, ok)
		}
		synctest.Wait()
		held[0].Leave() // a second call has no effect
		leave(held)
		if reading, _ := l.InFlight(); reading != 0 {
			t.Errorf("%d requests are still under way", reading)
		}
	})
}

// TestBorrowing checks that a level with high demand gets, after a while, the seats that other
// levels lend, and returns them.
func TestBorrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		defer l.Close()
		level := l.configuration().byName["workload-low"]
		r := asked("system:serviceaccount:shop:robot", "get")
		r.User.Groups = append(r.User.Groups, "system:serviceaccounts")
		r.Patience = time.Hour
		limit := func() int {
			level.mu.Lock()
			defer level.mu.Unlock()
			return level.limit
		}
		first := limit()
		ctx, cancel := context.WithCancel(t.Context())
		var passed sync.WaitGroup
		for range 900 {
			passed.Go(func() {
				p, _ := l.Enter(ctx, r)
				<-ctx.Done()
				p.Leave()
			})
		}
		synctest.Wait()
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if got, own := limit(), level.share.nominal; got <= own || got > 600 {
			t.Errorf("%d seats, nominal are %d, while other levels are idle", got, own)
		}
		other := level.limiter.configuration().byName["system"]
		if other.limit < other.share.lower {
			t.Errorf("system has %d seats, less than its lower bound %d", other.limit, other.share.lower)
		}
		cancel()
		passed.Wait()
		time.Sleep(2 * time.Hour)
		p, _ := l.Enter(t.Context(), asked("bob", "get")) // the next request adjusts the limits
		p.Leave()
		if got := limit(); got > first+1 || got < first-1 {
			t.Errorf("%d seats after two idle hours, %d at the start", got, first)
		}
	})
}

// TestJail checks that requests at a level without seats wait, and are rejected.
func TestJail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t)
		c.put(levelKey("jail"), map[string]any{"type": "Limited", "limited": map[string]any{
			"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
			"limitResponse": map[string]any{"type": "Queue", "queuing": map[string]any{"queues": 1, "handSize": 1, "queueLengthLimit": 2}},
		}}, "")
		c.schema("thief", "jail", 5, "")
		limiter := New(Config{State: c.store.State()})
		defer limiter.Close()
		var all sync.WaitGroup
		var waited []time.Duration
		var mu sync.Mutex
		for range 5 {
			all.Go(func() {
				begin := time.Now()
				p, retryAfter := limiter.Enter(t.Context(), asked("user-thief", "get"))
				mu.Lock()
				defer mu.Unlock()
				if retryAfter == 0 {
					t.Error("a request was admitted")
				}
				if len(p.FlowSchemaUID()) != 1 || p.FlowSchemaUID()[0] == "" {
					t.Errorf("a rejected request has the FlowSchema UID %q", p.FlowSchemaUID())
				}
				waited = append(waited, time.Since(begin))
			})
		}
		all.Wait()
		if got := fmt.Sprint(waited); got != "[0s 0s 0s 15s 15s]" {
			t.Errorf("waited %s", got)
		}
		want := `
# HELP apiserver_flowcontrol_rejected_requests_total Requests that were rejected.
# TYPE apiserver_flowcontrol_rejected_requests_total counter
apiserver_flowcontrol_rejected_requests_total{flow_schema="thief",priority_level="jail",reason="queue-full"} 3
apiserver_flowcontrol_rejected_requests_total{flow_schema="thief",priority_level="jail",reason="time-out"} 2
`
		if err := testutil.CollectAndCompare(limiter, strings.NewReader(want), "apiserver_flowcontrol_rejected_requests_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestMetrics checks that all metrics exist, and that there are no duplicates.
func TestMetrics(t *testing.T) {
	l := New(Config{})
	defer l.Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(l)
	if _, err := registry.Gather(); err != nil { // before the first request
		t.Error(err)
	}
	p, _ := l.Enter(t.Context(), asked("bob", "list"))
	w, _ := l.Enter(t.Context(), asked("bob", "watch"))
	w.Leave()
	families, err := registry.Gather()
	if err != nil || len(families) != 19 { // all except that of rejections
		t.Errorf("%d families, %v", len(families), err)
	}
	p.Leave()
}

// TestWork checks the work of requests at a level that gives a request at most 8 seats.
func TestWork(t *testing.T) {
	l := New(Config{})
	defer l.Close()
	count, bytes := 0, int64(0)
	l.size = func(schema.GroupResource) (int, int64) { return count, bytes }
	watch := func(n int, namespace, name string) {
		for range n {
			a := *asked("watcher", "watch").Attributes
			a.Namespace, a.Name = namespace, name
			if _, err := l.Watch(&a); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		verb, name, query string
		objects           int
		bytes             int64
		want              Work
	}{
		{verb: "get", objects: 10_000, want: Work{Seats: 1}},
		{verb: "list", want: Work{Seats: 1}},
		{verb: "list", objects: 100, want: Work{Seats: 1}},
		{verb: "list", objects: 101, want: Work{Seats: 2}},
		{verb: "list", objects: 100_000, want: Work{Seats: 8}},
		{verb: "list", objects: 100_000, query: "limit=250", want: Work{Seats: 3}},
		{verb: "list", objects: 100_000, query: "a=b&limit=-1", want: Work{Seats: 8}},
		{verb: "list", objects: 100_000, query: "limit=9999999999999999999999", want: Work{Seats: 8}},
		{verb: "list", objects: 100_000, name: "a", want: Work{Seats: 1}},
		{verb: "list", objects: 10, bytes: 100_000, want: Work{Seats: 1}},
		{verb: "list", objects: 10, bytes: 100_001, want: Work{Seats: 2}},
		{verb: "list", objects: 10, bytes: 10_000_000, want: Work{Seats: 8}},
		{verb: "list", objects: 10, bytes: 10_000_000, name: "a", want: Work{Seats: 1}},
		{verb: "list", objects: 100, bytes: 10_000_000, query: "limit=3", want: Work{Seats: 3}},
		{verb: "list", objects: 1000, bytes: 200_000, want: Work{Seats: 8}},
		{verb: "watch", objects: 10, bytes: 300_000, want: Work{Seats: 3}},
		{verb: "watch", objects: 500, want: Work{Seats: 5}},
		{verb: "watch", objects: 500, query: "resourceVersion=0", want: Work{Seats: 5}},
		{verb: "watch", objects: 500, query: "resourceVersion=7", want: Work{Seats: 1}},
		{verb: "watch", objects: 500, query: "resourceVersion=7&sendInitialEvents=true", want: Work{Seats: 5}},
		{verb: "watch", objects: 500, query: "resourceVersion=7&limit=1", want: Work{Seats: 1}},
	} {
		count, bytes = tc.objects, tc.bytes
		a := *asked("bob", tc.verb).Attributes
		a.Name = tc.name
		if got := l.estimate(&a, tc.query, 8); got != tc.want {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
	update := *asked("bob", "update").Attributes
	update.Name = "a"
	wants := func(want Work) {
		t.Helper()
		if got := l.estimate(&update, "", 8); got != want {
			t.Errorf("update: %+v, want %+v", got, want)
		}
	}
	wants(Work{Seats: 1})
	watch(9, "", "")
	watch(20, "other", "")
	wants(Work{Seats: 1})
	watch(6, "shop", "")
	watch(7, "shop", "a")
	watch(50, "shop", "b")
	wants(Work{Seats: 1, FinalSeats: 3, FinalLength: 5 * time.Millisecond})
	watch(378, "shop", "")
	wants(Work{Seats: 1, FinalSeats: 8, FinalLength: 25 * time.Millisecond}) // 40 for 5 ms
}

// TestLingering checks that a write keeps its seats for the time that its watch events take, and
// that waiting requests get them afterwards.
func TestLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		defer l.Close()
		for range 100 {
			if _, err := l.Watch(asked("w", "watch").Attributes); err != nil {
				t.Fatal(err)
			}
		}
		write := asked("bob", "update")
		write.Reads = false
		begin := time.Now()
		held := hold(t, l, write)
		passed := time.Since(begin)
		leave(held)
		p, _ := l.Enter(t.Context(), write)
		p.Leave()
		if took := time.Since(begin) - passed; len(held) < 2 || took < 5*time.Millisecond || took > 10*time.Millisecond {
			t.Errorf("%d at a time, the next one after %s", len(held), took)
		}
	})
}

// TestPlain checks that, without fairness, reads and writes have separate limits, which do not
// apply to administrators and watches.
func TestPlain(t *testing.T) {
	l := New(Config{Options: Options{Unfair: true, MaxRequestsInFlight: 2, MaxMutatingRequestsInFlight: -1}})
	defer l.Close()
	held := hold(t, l, asked("bob", "get"))
	if len(held) != 2 {
		t.Errorf("%d reads at a time", len(held))
	}
	write := asked("bob", "update")
	write.Reads = false
	admin := asked("bob", "get")
	admin.User = authn.Admin()
	for _, r := range []*Request{asked("bob", "watch"), write, admin} {
		p, retryAfter := l.Enter(t.Context(), r)
		if retryAfter != 0 || p.FlowSchemaUID() != nil {
			t.Errorf("%s of %s: %d, %q", r.Verb, r.User.Name, retryAfter, p.FlowSchemaUID())
		}
		p.Leave()
	}
	leave(held)
	if reading, writing := l.InFlight(); reading != 0 || writing != 0 {
		t.Errorf("%d reads and %d writes are still under way", reading, writing)
	}
}
