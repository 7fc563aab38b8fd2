package pebble

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// nowhere is a sink that folds nothing: what a benchmark shows is the journal's.
type nowhere struct{ entries int }

func (n *nowhere) Revision(object.Key) object.Revision         { return 0 }
func (n *nowhere) Apply(e []journal.Entry)                     { n.entries += len(e) }
func (n *nowhere) Restore(journal.Entry)                       { n.entries++ }
func (n *nowhere) Rebase(e []journal.Entry, _ object.Revision) { n.entries += len(e) }
func (n *nowhere) Unreadable(object.Key, error)                {}
func (n *nowhere) Restored(_, _ object.Revision)               {}

// BenchmarkAppend writes objects of 1 KB, each under a key of its own.
func BenchmarkAppend(b *testing.B) {
	raw := put(pods, "x", 0, strings.Repeat("x", 1000)).Object.Raw
	for _, appenders := range []int{1, 16, 256} {
		for _, engine := range []string{"memory", "disk"} {
			b.Run(fmt.Sprintf("engine=%s/appenders=%d", engine, appenders), func(b *testing.B) {
				var j journal.Journal = memory.New()
				var disk *Journal
				if engine == "disk" {
					var err error
					if disk, err = Open(Options{Dir: b.TempDir(), Logger: quiet}); err != nil {
						b.Fatal(err)
					}
					j = disk
				}
				if err := j.Recover(b.Context(), &nowhere{}); err != nil {
					b.Fatal(err)
				}
				defer j.Close()
				var before Stats
				if disk != nil {
					before = disk.Stats()
				}
				var n atomic.Int64
				var all sync.WaitGroup
				b.ResetTimer()
				for range appenders {
					all.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							k := object.Key{Resource: pods, Namespace: "default", Name: fmt.Sprint(i)}
							e := journal.Entry{Key: k, Object: &object.Object{Key: k, Raw: raw}}
							if _, err := j.Append(context.Background(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				seconds := b.Elapsed().Seconds()
				b.ReportMetric(float64(b.N)/seconds, "writes/s")
				if disk != nil {
					after := disk.Stats()
					b.ReportMetric(float64(after.Commits-before.Commits)/seconds, "groups/s")
					b.ReportMetric(float64(after.Syncs-before.Syncs)/seconds, "syncs/s")
				}
			})
		}
	}
}

// BenchmarkNote writes the head that each group leaves beside the store.
func BenchmarkNote(b *testing.B) {
	dir := b.TempDir()
	if err := createHead(vfs.Default, dir, head{state: stateReady}); err != nil {
		b.Fatal(err)
	}
	f, err := openHead(vfs.Default, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer f.close()
	for i := object.Revision(0); b.Loop(); i++ {
		if err := f.write(head{stateReady, i}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecover reads back 100,000 objects of 1 KB, as the journal alone and with
// the state machine; JOURNAL_BENCH_OBJECTS sets another number.
func BenchmarkRecover(b *testing.B) {
	objects := 100_000
	if text := os.Getenv("JOURNAL_BENCH_OBJECTS"); text != "" {
		if _, err := fmt.Sscan(text, &objects); err != nil {
			b.Fatal(err)
		}
	}
	opts := Options{Dir: b.TempDir(), Logger: quiet}
	if err := Import(b.Context(), opts, object.Revision(objects), webPods(objects)); err != nil {
		b.Fatal(err)
	}
	for _, sink := range []string{"none", "state"} {
		b.Run("sink="+sink, func(b *testing.B) {
			for b.Loop() {
				j, err := Open(opts)
				if err != nil {
					b.Fatal(err)
				}
				found := 0
				if sink == "none" {
					var n nowhere
					err = j.Recover(b.Context(), &n)
					found = n.entries
				} else {
					var s *state.State
					if s, err = state.Open(b.Context(), j, state.Options{}); err == nil {
						found = s.Count(pods)
					}
				}
				if err != nil || found != objects {
					b.Fatalf("%d objects, error %v", found, err)
				}
				if err := j.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(objects)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// webPods are objects of 1 KB, in no order of their names.
func webPods(n int) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for i := range n {
			k := object.Key{Resource: pods, Namespace: "default", Name: fmt.Sprintf("web-%08x", uint32(i)*2654435761)}
			o, err := object.New(k, map[string]any{
				"metadata": map[string]any{
					"name": k.Name, "namespace": k.Namespace, "uid": fmt.Sprintf("7c6d1a4e-0000-4000-8000-%012d", i),
					"creationTimestamp": "2025-03-04T05:06:07Z", "labels": map[string]any{"app": "web"},
				},
				"spec": map[string]any{"text": fmt.Sprintf("%0800d", i*i)},
			}, 1, time.Unix(7, 0))
			if err == nil {
				o.Revision = object.Revision(i + 1)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// BenchmarkOpen opens and recovers a small store: what a start waits for.
func BenchmarkOpen(b *testing.B) {
	opts := Options{Dir: b.TempDir(), Logger: quiet}
	if err := Import(b.Context(), opts, 100, webPods(100)); err != nil {
		b.Fatal(err)
	}
	var syncs int64
	for b.Loop() {
		j, err := Open(opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Recover(b.Context(), &nowhere{}); err != nil {
			b.Fatal(err)
		}
		syncs += j.Stats().Syncs
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(syncs)/float64(b.N), "syncs/op")
}

// BenchmarkOldSnapshot looks at revision 1000 of 1000 objects of 5 KB, after 100 MB of history: the
// first time, and for the pages that follow.
func BenchmarkOldSnapshot(b *testing.B) {
	j, err := Open(Options{Dir: b.TempDir(), Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	s, err := state.Open(b.Context(), j, state.Options{HistoryBytes: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	const objects, rounds = 1000, 20
	for round := range rounds {
		var batch journal.Batch
		for i := range objects {
			e := put(pods, fmt.Sprint(i), 0, strings.Repeat("x", 5000))
			if round > 0 {
				e.Prev = object.Revision((round-1)*objects + i + 1)
			}
			batch.Entries = append(batch.Entries, e)
		}
		if _, err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for _, pages := range []int{1, 10} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for range pages {
					if _, err := s.SnapshotAt(b.Context(), pods, object.Revision(objects-i%500)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
