// Package journaltest is the test suite for journals: it checks the guarantees of package journal
// one by one.
//
// [Run] takes an [Engine] and runs every part of the suite that applies to it. [Twin] is a simple
// fold that the suite compares a journal with; other tests of journals use it, too.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Engine describes an implementation of journal.Journal.
type Engine struct {
	// New returns a store, empty at first. Each call of open opens it again, after the journal that
	// was opened before has been closed.
	New func(t *testing.T) (open func() (journal.Journal, error))
	// Forgets means that a journal is empty when it is opened, and keeps no history.
	Forgets bool
	// OnePerResource means that a batch may write only one object of a resource.
	OnePerResource bool
	// Sparse means that recovery restores the live objects only; the history is read with History.
	Sparse bool
	// Plain means that only the bytes of objects are stored: neither Schema nor Written.
	Plain bool
}

// Run runs the suite.
func Run(t *testing.T, engine Engine) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *bench)
		need bool
	}{
		{"Preconditions", testPreconditions, true},
		{"Guards", testGuards, true},
		{"BadBatches", testBadBatches, true},
		{"Batches", testBatches, true},
		{"Cancelled", testCancelled, true},
		{"OneWins", testOneWins, true},
		{"GuardsRace", testGuardsRace, true},
		{"ManyWriters", testManyWriters, true},
		{"Close", testClose, true},
		{"Head", testHead, true},
		{"Recovery", testRecovery, !engine.Forgets},
		{"RevisionsAreUsedOnce", testRevisionsAreUsedOnce, !engine.Forgets},
		{"History", testHistory, !engine.Forgets},
		{"Compact", testCompact, !engine.Forgets},
		{"CompactUnderWrites", testCompactUnderWrites, !engine.Forgets},
		{"Random", testRandom, !engine.Forgets},
		{"Forgotten", testForgotten, engine.Forgets},
	} {
		if part.need {
			t.Run(part.name, func(t *testing.T) { part.run(t, newBench(t, engine)) })
		}
	}
}

// bench is a journal under test, and the twin that is its sink.
type bench struct {
	engine Engine
	open   func() (journal.Journal, error)
	journal.Journal
	twin *Twin
}

func newBench(t *testing.T, engine Engine) *bench {
	b := &bench{engine: engine, open: engine.New(t)}
	b.start(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *bench) start(t *testing.T) {
	t.Helper()
	j, err := b.open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	b.Journal, b.twin = j, NewTwin()
	if b.engine.Plain {
		b.twin = NewPlainTwin()
	}
	if err := j.Recover(t.Context(), b.twin); err != nil {
		t.Fatalf("recover: %v", err)
	}
}

// restart closes and opens the journal, and checks that its contents are unchanged.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	before, compacted := b.twin, b.Compacted()
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	b.start(t)
	if b.Compacted() != compacted {
		t.Errorf("compacted up to %d after a restart, %d before", b.Compacted(), compacted)
	}
	if err := before.SameObjects(b.twin); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if !b.engine.Sparse {
		if err := before.SameEntries(b.twin, compacted); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	}
	b.twin = b.twin.after(before)
}

var (
	pods    = schema.GroupResource{Resource: "pods"}
	deploys = schema.GroupResource{Group: "example.com", Resource: "deployments"}
	scales  = schema.GroupResource{Group: "example.com", Resource: "deploymentscales"}
	nodes   = schema.GroupResource{Resource: "nodes"}
)

func key(resource schema.GroupResource, name string) object.Key {
	k := object.Key{Resource: resource, Namespace: "default", Name: name}
	if resource == nodes {
		k.Namespace = ""
	}
	return k
}

var written = time.Date(2024, 5, 17, 12, 30, 0, 123456789, time.UTC)

// put makes an entry that writes a text under a key.
func put(k object.Key, prev object.Revision, text string) journal.Entry {
	o, err := object.New(k, map[string]any{
		"kind":     "Test",
		"metadata": map[string]any{"name": k.Name, "namespace": k.Namespace, "uid": "uid-" + k.Name},
		"spec":     map[string]any{"text": text},
	}, 42, written)
	if err != nil {
		panic(err) // such a tree can always be encoded
	}
	return journal.Entry{Key: k, Prev: prev, Object: o}
}

func remove(k object.Key, prev object.Revision) journal.Entry {
	return journal.Entry{Key: k, Prev: prev}
}

func batch(entries ...journal.Entry) journal.Batch { return journal.Batch{Entries: entries} }

// append commits entries, and checks that the twin has them when Append returns.
func (b *bench) append(t *testing.T, entries ...journal.Entry) object.Revision {
	t.Helper()
	return b.commit(t, batch(entries...))
}

func (b *bench) commit(t *testing.T, batch journal.Batch) object.Revision {
	t.Helper()
	rev, err := b.Append(t.Context(), batch)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	for i := range batch.Entries {
		e := &batch.Entries[i]
		at := b.twin.Revision(e.Key)
		if e.Object == nil && at != 0 || e.Object != nil && (at == 0 || at > rev) {
			t.Fatalf("%s is at revision %d when its append has returned %d", e.Key, at, rev)
		}
		if e.Object == nil {
			continue
		}
		if e.Object.Revision != at {
			t.Errorf("the object of %s thinks it is at revision %d when its append has returned %d", e.Key, e.Object.Revision, rev)
		}
		if live := b.twin.Live()[e.Key]; live.Schema != e.Object.Schema || !live.Written.Equal(e.Object.Written) {
			t.Errorf("%s is applied with schema %d of %v, appended with %d of %v", e.Key, live.Schema, live.Written, e.Object.Schema, e.Object.Written)
		}
	}
	return rev
}

// conflicts checks that a batch is rejected and changes nothing.
func (b *bench) conflicts(t *testing.T, batch journal.Batch, want journal.ConflictError) {
	t.Helper()
	before := len(b.twin.Entries())
	_, err := b.Append(t.Context(), batch)
	var conflict *journal.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("append: %v, want %v", err, &want)
	}
	if *conflict != want {
		t.Errorf("append: %+v, want %+v", *conflict, want)
	}
	if n := len(b.twin.Entries()); n != before {
		t.Errorf("a rejected batch left %d entries", n-before)
	}
}

// history reads history in parts of limit records and compares it with the twin.
func (b *bench) history(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) error {
	want := b.twin.records(resource, after, upTo)
	for at := after; ; {
		got, err := b.History(ctx, resource, at, upTo, limit)
		if err != nil {
			return err
		}
		if limit > 0 && len(got) > limit {
			return fmt.Errorf("history of %d records, limit %d", len(got), limit)
		}
		if len(got) > len(want) {
			return fmt.Errorf("history of %s in (%d, %d] has %d records more than it should", resource, at, upTo, len(got)-len(want))
		}
		for i := range got {
			if err := sameRecord(&got[i], &want[i], b.engine.Plain); err != nil {
				return fmt.Errorf("history of %s in (%d, %d]: %w", resource, at, upTo, err)
			}
		}
		want = want[len(got):]
		if limit <= 0 || len(got) < limit {
			break
		}
		at = got[len(got)-1].Revision
	}
	if len(want) > 0 {
		return fmt.Errorf("history of %s up to %d lacks %d records, first %d", resource, upTo, len(want), want[0].Revision)
	}
	return b.undo(ctx, resource, after, upTo)
}

// undo compares the results of a journal that is an Undoer with the twin.
func (b *bench) undo(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision) error {
	u, ok := b.Journal.(journal.Undoer)
	if !ok {
		return nil
	}
	var want, got []journal.Record
	known := map[object.Key]bool{}
	for _, r := range b.twin.records(resource, after, upTo) {
		if !known[r.Key] {
			known[r.Key] = true
			want = append(want, journal.Record{Entry: journal.Entry{Key: r.Key}, Replaced: r.Replaced})
		}
	}
	err := u.Undo(ctx, resource, after, upTo, func(key object.Key, was *object.Object) {
		got = append(got, journal.Record{Entry: journal.Entry{Key: key}, Replaced: was})
	})
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("undo of %s in (%d, %d] puts %d keys, want %d", resource, after, upTo, len(got), len(want))
	}
	for i := range got {
		if err := sameRecord(&got[i], &want[i], b.engine.Plain); err != nil {
			return fmt.Errorf("undo of %s in (%d, %d]: %w", resource, after, upTo, err)
		}
	}
	return nil
}
