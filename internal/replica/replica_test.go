package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

var quiet = slog.New(slog.DiscardHandler)

// line is a journal that can be cut off from its writers.
type line struct {
	journal.Journal
	cut atomic.Bool
}

func (l *line) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	if l.cut.Load() {
		return 0, journal.ErrUnavailable
	}
	return l.Journal.Append(ctx, b)
}

// newStore returns a store that all servers of a test write to: what replicates it
// is not what is tested here.
func newStore(t *testing.T) (*resource.Store, *line) {
	l := &line{Journal: memory.New()}
	st, err := state.Open(t.Context(), l, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := resource.NewStore(st, resource.NewRegistry(builtin.Definitions()...))
	if err := builtin.EnsureNamespaces(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store, l
}

func join(t *testing.T, store *resource.Store, name string, serves object.Revision) *Replica {
	t.Helper()
	r, known, err := Join(t.Context(), store, name, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if known == 0 || known > store.State().Revision() {
		t.Fatalf("known since revision %d", known)
	}
	r.Serves(serves)
	synctest.Wait()
	return r
}

func leaders(all ...*Replica) (names []string) {
	for _, r := range all {
		if r.Leads() {
			names = append(names, r.name)
		}
	}
	return names
}

func wantLeader(t *testing.T, want string, all ...*Replica) {
	t.Helper()
	synctest.Wait()
	if got := leaders(all...); fmt.Sprint(got) != fmt.Sprint([]string{want}) {
		t.Errorf("%v lead, want %s", got, want)
	}
}

func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		a := join(t, store, "a", 0)
		b := join(t, store, "b", 0)
		c := join(t, store, "c", 0)
		for range 100 {
			wantLeader(t, "a", a, b, c)
			time.Sleep(time.Second)
		}
		// In good order: somebody else takes over at once.
		a.Close()
		synctest.Wait()
		if got := leaders(b, c); len(got) != 1 {
			t.Fatalf("%v lead at once", got)
		}
		b.Close()
		wantLeader(t, "c", b, c)
		c.Close()
		for o := range store.State().Snapshot(a.leases.definition.GroupResource()).All("") {
			if o.Key.Name != leaderName {
				t.Errorf("%s is left", o.Key)
			}
		}
	})
}

// TestLeaderIsCutOff: a leader who cannot write stops to lead before another one
// begins; the one who is cut off alone here is the leader, as all share a store.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, wire := newStore(t)
		a, b := join(t, store, "a", 0), join(t, store, "b", 0)
		wantLeader(t, "a", a, b)
		wire.cut.Store(true)
		cut := time.Now()
		for a.Leads() {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(cut); took > trust {
			t.Errorf("leads for %v without its lease", took)
		}
		time.Sleep(time.Minute)
		if got := leaders(a, b); got != nil {
			t.Errorf("%v lead, and nobody can write", got)
		}
		wire.cut.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := leaders(a, b); len(got) != 1 {
			t.Errorf("%v lead after the cut", got)
		}
		a.Close()
		b.Close()
	})
}

// TestNobodySaysGoodBye: the Leases of a server that has died hold for a while.
func TestNobodySaysGoodBye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		a, b := join(t, store, "a", 0), join(t, store, "b", 0)
		a.stop()
		a.running.Wait()
		died := time.Now()
		for !b.Leads() {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(died); took < duration-renewal-time.Second || took > duration+time.Second {
			t.Errorf("b leads after %v", took)
		}
		if b.AllServe(1) != true {
			t.Error("b waits for a server that is gone")
		}
		time.Sleep(2 * forgotten)
		synctest.Wait()
		if o, _ := store.State().Get(b.leases.key(memberPrefix + "a")); o != nil {
			t.Error("the lease of a server that is gone is left")
		}
		b.Close()
	})
}

func TestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		a := join(t, store, "a", 7)
		if !a.AllServe(100) {
			t.Error("alone, and waits")
		}
		b, c := join(t, store, "b", 8), join(t, store, "c", 9)
		if !a.AllServe(8) || a.AllServe(9) || !b.AllServe(7) || b.AllServe(8) {
			t.Error("servers say what they serve when they join")
		}
		changed := a.Changed()
		b.Serves(20)
		<-changed
		synctest.Wait()
		if !a.AllServe(9) || a.AllServe(10) {
			t.Error("c has not said more")
		}
		c.Serves(20)
		c.Serves(15) // never less
		synctest.Wait()
		if !a.AllServe(20) || a.AllServe(21) {
			t.Error("b and c serve 20")
		}
		// A server that dies holds the others up until its lease ends.
		c.stop()
		c.running.Wait()
		b.Serves(30)
		synctest.Wait()
		if a.AllServe(30) {
			t.Error("c may be there")
		}
		// And then a is told, at once.
		begin := time.Now()
		for !a.AllServe(30) {
			<-a.Changed()
		}
		if took := time.Since(begin); took > duration {
			t.Errorf("c is taken to be there for %v", took)
		}
		a.Close()
		b.Close()
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		if _, _, err := Join(t.Context(), store, "controllers", quiet); err == nil {
			t.Error("a server is called as the leader's lease")
		}
		if _, _, err := Join(t.Context(), store, "Not/A/Name", quiet); err == nil {
			t.Error("a server has a name that no lease can have")
		}
	})
}

// TestForeignLease: a Lease that has a name like ours is not ours.
func TestForeignLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		r := join(t, store, "a", 5)
		defer r.Close()
		request := r.leases.request("")
		body := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kapok-operator","namespace":"kube-system"},"spec":{"holderIdentity":"x"}}`
		if _, err := store.Create(t.Context(), request, resource.Body{Data: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !r.AllServe(5) {
			t.Error("it is taken for a server")
		}
		time.Sleep(2 * forgotten)
		synctest.Wait()
		if o, _ := store.State().Get(r.leases.key("kapok-operator")); o == nil {
			t.Error("it has been removed")
		}
	})
}
