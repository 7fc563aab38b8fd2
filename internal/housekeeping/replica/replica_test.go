package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

var quiet = slog.New(slog.DiscardHandler)

// A line is a journal whose writers can be cut off.
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

// newStore returns a store that all servers of a test write to: replication of stores is not under
// test here.
func newStore(t *testing.T) (*resource.Store, *line) {
	l := &line{Journal: memory.New()}
	st, err := state.Open(t.Context(), l, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))
	if err := bootstrap.EnsureNamespaces(t.Context(), store); err != nil {
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
		t.Fatalf("joined at revision %d", known)
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
		// A server that shuts down is replaced at once.
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
				t.Errorf("%s still exists", o.Key)
			}
		}
	})
}

// TestLeaderIsCutOff checks that a leader that cannot write stops leading before another one
// begins. As all servers share a store, only the leader is cut off here.
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
			t.Errorf("%v lead, although no server can write", got)
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

// TestLeasesOfDeadServerExpire checks that the Leases of a server that died expire.
func TestLeasesOfDeadServerExpire(t *testing.T) {
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
			t.Error("b still waits for a server that is gone")
		}
		time.Sleep(2 * forgotten)
		synctest.Wait()
		if o, _ := store.State().Get(b.leases.key(memberPrefix + "a")); o != nil {
			t.Error("the lease of a server that is gone still exists")
		}
		b.Close()
	})
}

func TestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		a := join(t, store, "a", 7)
		if !a.AllServe(100) {
			t.Error("AllServe is false without other servers")
		}
		b, c := join(t, store, "b", 8), join(t, store, "c", 9)
		if !a.AllServe(8) || a.AllServe(9) || !b.AllServe(7) || b.AllServe(8) {
			t.Error("AllServe does not follow the revisions 7, 8 and 9 of a, b and c")
		}
		changed := a.Changed()
		b.Serves(20)
		<-changed
		synctest.Wait()
		if !a.AllServe(9) || a.AllServe(10) {
			t.Error("AllServe does not follow the revision 9 of c")
		}
		c.Serves(20)
		c.Serves(15) // has no effect: revisions never decrease
		synctest.Wait()
		if !a.AllServe(20) || a.AllServe(21) {
			t.Error("b and c serve 20, but AllServe is false for 20 or true for 21")
		}
		// A server that died delays the others until its Lease expires.
		c.stop()
		c.running.Wait()
		b.Serves(30)
		synctest.Wait()
		if a.AllServe(30) {
			t.Error("AllServe is true before the Lease of c expired")
		}
		// The change is reported at once.
		begin := time.Now()
		for !a.AllServe(30) {
			<-a.Changed()
		}
		if took := time.Since(begin); took > duration {
			t.Errorf("c counts as running for %v", took)
		}
		a.Close()
		b.Close()
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		if _, _, err := Join(t.Context(), store, "controllers", quiet); err == nil {
			t.Error("the name of the leader's lease is accepted")
		}
		if _, _, err := Join(t.Context(), store, "Not/A/Name", quiet); err == nil {
			t.Error("a name that no lease can have is accepted")
		}
	})
}

// TestForeignLease checks that a Lease without the label is ignored, whatever its name.
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
			t.Error("the Lease counts as a server")
		}
		time.Sleep(2 * forgotten)
		synctest.Wait()
		if o, _ := store.State().Get(r.leases.key("kapok-operator")); o == nil {
			t.Error("the Lease was removed")
		}
	})
}
