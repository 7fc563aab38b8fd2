package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestConcurrent runs writers, readers and watchers at once. Every watcher sees the same events
// without a gap; every snapshot is the fold of the events up to its revision.
func TestConcurrent(t *testing.T) {
	for _, test := range []struct {
		name  string
		open  func() (journal.Journal, error)
		bytes int
	}{
		{"memory", func() (journal.Journal, error) { return memory.New(), nil }, 0},
		{"pebble", func() (journal.Journal, error) {
			return pebble.Open(pebble.Options{Dir: "journal", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
		}, 10_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, err := test.open()
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			s, err := Open(t.Context(), j, Options{HistoryBytes: test.bytes})
			if err != nil {
				t.Fatal(err)
			}
			concurrent(t, s)
		})
	}
}

func concurrent(t *testing.T, s *State) {
	const writers, writes = 6, 150
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var watching sync.WaitGroup
	seen := make([][]Event, 6)
	for i := range seen {
		watching.Go(func() { seen[i] = follow(ctx, t, s) })
	}
	var snapshots []Snapshot
	watching.Go(func() {
		for ctx.Err() == nil && len(snapshots) < 300 {
			now := s.Snapshot(pods)
			older, err := s.SnapshotAt(ctx, pods, now.Revision/2)
			if err != nil && ctx.Err() == nil {
				t.Errorf("snapshot at %d: %v", now.Revision/2, err)
			}
			if err == nil {
				snapshots = append(snapshots, now, older)
			}
			s.Count(pods)
		}
	})

	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range writes {
				k := object.Key{Resource: pods, Name: fmt.Sprint((w * i) % 7)}
				e := journal.Entry{Key: k, Object: newObject(t, k, fmt.Sprint(w, i), "owner")}
				if o, _ := s.Get(k); o != nil {
					if e.Prev = o.Revision; i%4 == 0 {
						e.Object = nil
					}
				}
				_, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}})
				if conflict := (*journal.ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	writing.Wait()
	head := s.Revision()
	stop()
	watching.Wait()

	var m model
	for _, e := range seen[0] {
		m.entries = append(m.entries, journal.Entry{Key: e.Last().Key, Revision: e.Revision, Object: e.Object})
	}
	if m.head() != head {
		t.Errorf("a watcher saw events up to %d of %d", m.head(), head)
	}
	g := &rig{t: t, model: m}
	for _, events := range seen {
		g.checkEvents(events, m.events(pods, 0))
		if len(events) != len(seen[0]) {
			t.Errorf("a watcher saw %d events, another %d", len(events), len(seen[0]))
		}
	}
	for _, snap := range snapshots {
		want := m.at(pods, snap.Revision)
		got := slices.Collect(snap.All(""))
		if len(got) != len(want) {
			t.Fatalf("snapshot at %d has %d objects, want %d", snap.Revision, len(got), len(want))
		}
		for _, o := range got {
			if !same(o, want[o.Key]) {
				t.Fatalf("snapshot at %d: %s, want %s", snap.Revision, o.Raw, want[o.Key].Raw)
			}
		}
	}
}

// follow watches pods from the beginning until the context ends, and then reads
// what is left.
func follow(ctx context.Context, t *testing.T, s *State) (seen []Event) {
	c, err := s.Watch(pods, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	for {
		events, wait, err := c.Next(context.WithoutCancel(ctx))
		if err != nil {
			t.Error(err)
			return seen
		}
		seen = append(seen, events...)
		if len(events) > 0 {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if c.Revision() >= s.Revision() {
				return seen
			}
		}
	}
}
