package etcd_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var pods = schema.GroupResource{Resource: "pods"}

func pod(name string) object.Key {
	return object.Key{Resource: pods, Namespace: "default", Name: name}
}

// entry returns an entry that writes a text to a key.
func entry(t testing.TB, k object.Key, prev object.Revision, text string) journal.Entry {
	t.Helper()
	o, err := object.New(k, map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": k.Name, "namespace": k.Namespace, "uid": "u"},
		"text":     text,
	}, 7, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return journal.Entry{Key: k, Prev: prev, Object: o}
}

func batch(entries ...journal.Entry) journal.Batch { return journal.Batch{Entries: entries} }

// write appends until it succeeds or is rejected for good.
func (r *replica) write(t *testing.T, name, text string) object.Revision {
	t.Helper()
	k := pod(name)
	for begin := time.Now(); ; {
		rev, err := r.Append(t.Context(), batch(entry(t, k, r.twin.Revision(k), text)))
		if err == nil {
			return rev
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("append: %v", err)
		}
		t.Logf("append: %v", err)
		time.Sleep(20 * time.Millisecond)
	}
}

// eventually waits for a condition in real time, as etcd uses real time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// TestNetworkLost checks that without a connection to etcd the journal returns an error soon, and
// that it recovers with the entries that it missed.
func TestNetworkLost(t *testing.T) {
	c := startCluster(t, 1)
	a, b := c.replica(t), c.replica(t)
	for name, lose := range map[string]func(){"cut": a.cut, "frozen": a.freeze} {
		t.Run(name, func(t *testing.T) {
			a.write(t, "a", name+" before")
			lose()
			eventually(t, "health", func() bool { return errors.Is(a.Health(), journal.ErrUnavailable) })
			begin := time.Now()
			if _, err := a.Append(t.Context(), batch(entry(t, pod("never"), 0, ""))); !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("append: %v", err)
			}
			if _, err := a.Sync(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("sync: %v", err)
			}
			if took := time.Since(begin); took > 200*time.Millisecond {
				t.Errorf("it took %v to say that there is no etcd", took)
			}
			for i := range 20 {
				b.write(t, fmt.Sprint("other", i%3), fmt.Sprint(name, i))
			}
			a.heal()
			eventually(t, "recovery", func() bool { return a.Health() == nil })
			if _, err := a.Sync(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := b.Sync(t.Context()); err != nil {
				t.Error(err)
			}
			if err := a.twin.SameEntries(b.twin, 0); err != nil {
				t.Error(err)
			}
			a.write(t, "a", name+" after")
		})
	}
	if a.twin.Revision(pod("never")) != 0 {
		t.Error("a rejected write was committed")
	}
}

// TestCompactedWhileLost checks that entries compacted during an outage are replaced by a rebase.
func TestCompactedWhileLost(t *testing.T) {
	c := startCluster(t, 1)
	a, b := c.replica(t), c.replica(t)
	a.write(t, "stays", "1")
	a.write(t, "changes", "1")
	gone := a.write(t, "goes", "1")
	a.cut()
	eventually(t, "health", func() bool { return a.Health() != nil })
	b.write(t, "changes", "2")
	b.write(t, "changes", "3")
	b.write(t, "comes", "1")
	if _, err := b.Append(t.Context(), batch(journal.Entry{Key: pod("goes"), Prev: gone})); err != nil {
		t.Fatal(err)
	}
	head, _ := b.Head()
	if _, err := c.client(t).Compact(t.Context(), int64(head)); err != nil {
		t.Fatal(err)
	}
	a.heal()
	eventually(t, "recovery", func() bool { return a.Health() == nil })
	if _, err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.twin.SameObjects(b.twin); err != nil {
		t.Error(err)
	}
	if a.Compacted() != head {
		t.Errorf("compacted up to %d, want %d", a.Compacted(), head)
	}
	if entries := a.twin.Entries(); len(entries) != 0 {
		t.Errorf("not rebased: %d entries", len(entries))
	}
	a.write(t, "changes", "4")
	a.write(t, "goes", "back")
	if _, err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.twin.SameObjects(b.twin); err != nil {
		t.Error(err)
	}
}

// TestMembersLost checks that one of three members may fail, including the leader; two may not.
func TestMembersLost(t *testing.T) {
	c := startCluster(t, 3)
	a := c.replica(t)
	a.write(t, "a", "1")
	for round := range 3 {
		lost := c.leader()
		if round == 1 {
			lost = (lost + 1) % 3
		}
		t.Logf("member %d of leader %d", lost, c.leader())
		c.stop(lost)
		a.write(t, "a", fmt.Sprint("without ", lost))
		c.start(t, lost)
	}
	eventually(t, "a leader", func() bool { return c.leader() >= 0 })
	c.stop(0)
	c.stop(1)
	eventually(t, "health", func() bool { return a.Health() != nil })
	eventually(t, "a refused write", func() bool {
		// A write that is sent before the journal knows that the members are lost has an unknown outcome.
		_, err := a.Append(t.Context(), batch(entry(t, pod("b"), 0, "")))
		if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
			t.Fatalf("append: %v", err)
		}
		return errors.Is(err, journal.ErrUnavailable)
	})
	c.start(t, 1)
	eventually(t, "recovery", func() bool { return a.Health() == nil })
	a.write(t, "a", "again")
}

// TestWireFrozen checks that a member that does not respond is replaced by another.
func TestWireFrozen(t *testing.T) {
	c := startCluster(t, 3)
	a := c.replica(t)
	for i := range a.wires {
		a.wires[i].freeze()
		a.wires[(i+1)%3].freeze()
		a.write(t, "a", fmt.Sprint(i))
		if _, err := a.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		a.heal()
	}
}

// TestOneWins checks that of two replicas that expect the same revision one wins, and the other
// gets the revision of the winner.
func TestOneWins(t *testing.T) {
	c := startCluster(t, 1)
	replicas := [2]*replica{c.replica(t), c.replica(t)}
	var prev object.Revision
	for i := range 100 {
		var revisions [2]object.Revision
		var errs [2]error
		var all sync.WaitGroup
		for n, r := range replicas {
			all.Go(func() {
				// Both write the same bytes, so that the content does not show which one won.
				revisions[n], errs[n] = r.Append(t.Context(), batch(entry(t, pod("a"), prev, fmt.Sprint(i))))
			})
		}
		all.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		var conflict *journal.ConflictError
		if errs[winner] != nil || !errors.As(errs[1-winner], &conflict) {
			t.Fatalf("write %d: %v, %v", i, errs[0], errs[1])
		}
		prev = revisions[winner]
		if conflict.Current != prev || replicas[1-winner].twin.Revision(pod("a")) != prev {
			t.Fatalf("write %d at revision %d: %v, sink at %d", i, prev, conflict, replicas[1-winner].twin.Revision(pod("a")))
		}
	}
}

// TestMajorityLostIsAnsweredSoon checks that calls of the journal return within two fifths of
// RequestTimeout, which is 2 s by default, when two of three members have just gone: both writes
// and consistent reads.
func TestMajorityLostIsAnsweredSoon(t *testing.T) {
	c := startCluster(t, 3)
	const timeout = 5 * time.Second // the default
	a := c.replica(t, func(o *etcd.Options) { o.RequestTimeout = timeout })
	a.write(t, "a", "1")
	c.stop(0)
	c.stop(1)
	const slack = time.Second // for other load on the machine
	answered := func(what string, allowed []error, call func() error) {
		begin := time.Now()
		err := call()
		if !slices.ContainsFunc(allowed, func(want error) bool { return errors.Is(err, want) }) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begin); took > timeout*2/5+slack {
			t.Errorf("%s was answered after %v", what, took)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			answered("append", []error{journal.ErrUnavailable, journal.ErrUnknown}, func() error {
				_, err := a.Append(t.Context(), batch(entry(t, pod(fmt.Sprint("b", i)), 0, "")))
				return err
			})
		})
		all.Go(func() {
			time.Sleep(time.Duration(i) * 300 * time.Millisecond) // during the read of another one
			answered("sync", []error{journal.ErrUnavailable}, func() error {
				_, err := a.Sync(t.Context())
				return err
			})
		})
	}
	all.Wait()
}

// TestSlowMemberIsKept checks that the journal waits for a slow etcd, such as one with a slow disk.
func TestSlowMemberIsKept(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica(t, func(o *etcd.Options) { o.RequestTimeout = 5 * time.Second })
	a.write(t, "a", "1")
	for range 3 {
		a.freeze()
		thaw := time.AfterFunc(700*time.Millisecond, a.heal)
		k := pod("a")
		if _, err := a.Append(t.Context(), batch(entry(t, k, a.twin.Revision(k), "2"))); err != nil {
			t.Errorf("append: %v", err)
		}
		thaw.Stop()
		a.heal()
		if _, err := a.Sync(t.Context()); err != nil { // all delayed requests have arrived
			t.Errorf("sync: %v", err)
		}
	}
	if err := a.Health(); err != nil {
		t.Error(err)
	}
}
