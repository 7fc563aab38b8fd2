package etcd_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var disturbed = flag.Duration("disturbed", 8*time.Second, "how long TestLedger disturbs etcd and its network")

var configMaps = schema.GroupResource{Resource: "configmaps"}

// A ledger has the results of all writes.
type ledger struct {
	mu     sync.Mutex
	writes []write
}

type write struct {
	replica  int
	key      object.Key
	prev     object.Revision
	text     string // unique; empty for a deletion
	other    string // text of the other entry of the batch
	revision object.Revision
	err      error
}

func (l *ledger) add(w write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, w)
}

// TestLedger has writers of three replicas record the results of their writes, while members of
// etcd stop and start, networks break and history is compacted. At the end, all acknowledged writes
// exist and no rejected ones, and every replica has seen the same as a witness that was not
// disturbed.
func TestLedger(t *testing.T) {
	seed := seeds.Of(t)
	c := startCluster(t, 3)
	witness := c.replica(t)
	replicas := []*replica{c.replica(t), c.replica(t), c.replica(t)}
	var book ledger
	ctx, cancel := context.WithTimeout(t.Context(), *disturbed)
	defer cancel()
	var writers sync.WaitGroup
	for i, r := range replicas {
		for w := range 3 {
			writers.Go(func() {
				r.writeRandomly(ctx, t, i, fmt.Sprint(i, "-", w), &book, rand.New(rand.NewPCG(seed, uint64(10*i+w))))
			})
		}
	}
	disturb(ctx, t, c, witness, replicas, rand.New(rand.NewPCG(seed, 100)))
	writers.Wait()
	for i, r := range append(replicas, witness) {
		eventually(t, fmt.Sprint("recovery of ", i), func() bool {
			_, err := r.Sync(t.Context())
			return err == nil && r.Health() == nil
		})
	}
	book.check(t, witness)
	for i, r := range replicas {
		if err := witness.twin.SameObjects(r.twin); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
		if err := witness.twin.SameEntries(r.twin, r.twin.Since()); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
		t.Logf("replica %d: since %d of %d", i, r.twin.Since(), r.twin.Head())
	}
}

func (r *replica) writeRandomly(ctx context.Context, t *testing.T, replica int, name string, book *ledger, random *rand.Rand) {
	for i := 0; ctx.Err() == nil; i++ {
		w := write{replica: replica, key: pod(fmt.Sprint(random.IntN(6)))}
		w.prev = r.twin.Revision(w.key)
		b := batch(journal.Entry{Key: w.key, Prev: w.prev})
		if w.prev == 0 || random.IntN(4) > 0 {
			w.text = fmt.Sprint(name, "-", i)
			b = batch(entry(t, w.key, w.prev, w.text))
		}
		if random.IntN(3) == 0 {
			guard := pod(fmt.Sprint(6 + random.IntN(2)))
			b.Guards = []journal.Guard{{Key: guard, Revision: r.twin.Revision(guard)}}
		}
		both := w.text != "" && random.IntN(4) == 0
		var other write
		if both {
			other = w
			other.key.Resource = configMaps
			other.prev = r.twin.Revision(other.key)
			other.text += "-other"
			b.Entries = append(b.Entries, entry(t, other.key, other.prev, other.text))
			w.other = other.text
		}
		begin := time.Now()
		w.revision, w.err = r.Append(t.Context(), b)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("append took %v: %v", took, w.err)
		}
		book.add(w)
		if both {
			other.revision, other.err = w.revision, w.err
			book.add(other)
		}
		if w.err != nil && !errors.As(w.err, new(*journal.ConflictError)) {
			pause(ctx, 5*time.Millisecond)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// disturb injects faults until the context ends, and then repairs everything.
func disturb(ctx context.Context, t *testing.T, c *cluster, witness *replica, replicas []*replica, random *rand.Rand) {
	client := c.client(t)
	stopped := -1
	pause(ctx, 500*time.Millisecond)
	for ctx.Err() == nil {
		r := replicas[random.IntN(len(replicas))]
		wire := r.wires[random.IntN(len(r.wires))]
		switch random.IntN(12) {
		case 0:
			r.cut()
		case 1:
			r.freeze()
		case 2, 3:
			wire.freeze()
		case 4:
			wire.cut()
		case 5, 6, 7:
			r.heal()
		case 8, 9:
			if stopped >= 0 {
				c.start(t, stopped)
				stopped = -1
			} else if leader := c.leader(); leader >= 0 {
				stopped = (leader + random.IntN(2)) % 3
				c.stop(stopped)
			}
		default:
			if head := witness.twin.Head(); head > 1 {
				compacting, cancel := context.WithTimeout(ctx, time.Second)
				client.Compact(compacting, int64(head)) // its failure does not matter
				cancel()
			}
		}
		pause(ctx, time.Duration(20+random.IntN(300))*time.Millisecond)
	}
	if stopped >= 0 {
		c.start(t, stopped)
	}
	for _, r := range replicas {
		r.heal()
	}
}

// check compares the results of writes with the entries of the witness.
func (l *ledger) check(t *testing.T, witness *replica) {
	type place struct {
		resource schema.GroupResource
		revision object.Revision
	}
	entries := map[place]journal.Entry{}
	texts := map[string]object.Revision{}
	for _, e := range witness.twin.Entries() {
		entries[place{e.Key.Resource, e.Revision}] = e
		if e.Object != nil {
			texts[textOf(t, e.Object)] = e.Revision
		}
	}
	told := map[place]bool{} // the acknowledged ones
	unknown := map[string]bool{}
	counts := map[string]int{}
	var conflict *journal.ConflictError
	for _, w := range l.writes {
		at := place{w.key.Resource, w.revision}
		e, there := entries[at]
		if w.other != "" && texts[w.text] != texts[w.other] {
			t.Errorf("%+v was committed at revision %d, the other half at %d", w, texts[w.text], texts[w.other])
		}
		deletion := fmt.Sprint("deletion of ", w.key, w.prev)
		switch {
		case w.err == nil:
			counts["acknowledged"]++
			if told[at] {
				t.Errorf("two writers got revision %d", w.revision)
			}
			told[at] = true
			if !there || e.Key != w.key || e.Prev != w.prev || (w.text == "") != (e.Object == nil) || w.text != "" && textOf(t, e.Object) != w.text {
				t.Errorf("%+v was acknowledged, but %+v exists", w, e)
			}
		case errors.Is(w.err, journal.ErrUnknown):
			counts["unknown"]++
			if w.text == "" {
				unknown[deletion] = true
			} else {
				unknown[w.text] = true
			}
		case errors.As(w.err, &conflict), errors.Is(w.err, journal.ErrUnavailable):
			if conflict != nil {
				counts["conflicts"]++
			} else {
				counts["unavailable"]++
			}
			if at := texts[w.text]; w.text != "" && at > 0 {
				t.Errorf("%+v was rejected, but exists at revision %d", w, at)
			}
			conflict = nil
		default:
			t.Errorf("%+v", w)
		}
	}
	found := 0
	for at, e := range entries {
		if told[at] {
			continue
		}
		found++
		if e.Object == nil && !unknown[fmt.Sprint("deletion of ", e.Key, e.Prev)] || e.Object != nil && !unknown[textOf(t, e.Object)] {
			t.Errorf("%+v exists, but no writer got its revision", e)
		}
	}
	t.Logf("%d entries, %d of unknown outcome; %v", len(entries), found, counts)
	if counts["acknowledged"] < 50 {
		t.Errorf("too few writes")
	}
}

func textOf(t *testing.T, o *object.Object) string {
	tree, err := o.Tree()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := tree["text"].(string)
	return text
}
