package pebble

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// nowhere is a sink that folds nothing: what a benchmark shows is the journal's.
type nowhere struct{ entries int }

func (n *nowhere) Revision(object.Key) object.Revision         { return 0 }
func (n *nowhere) Apply(e []journal.Entry)                     { n.entries += len(e) }
func (n *nowhere) Restore(journal.Entry)                       { n.entries++ }
func (n *nowhere) Rebase(e []journal.Entry, _ object.Revision) { n.entries += len(e) }
func (n *nowhere) Restored(_, _ object.Revision)               {}

// syncs counts the syncs of the files below it.
type syncs struct {
	vfs.FS
	n atomic.Int64
}

type syncedFile struct {
	vfs.File
	n *atomic.Int64
}

func (s *syncs) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return syncedFile{f, &s.n}, err
}

func (s *syncs) ReuseForWrite(o, n string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(o, n, c)
	return syncedFile{f, &s.n}, err
}

func (f syncedFile) Sync() error     { f.n.Add(1); return f.File.Sync() }
func (f syncedFile) SyncData() error { f.n.Add(1); return f.File.SyncData() }

// BenchmarkAppend writes objects of 1 KB, each under a key of its own.
func BenchmarkAppend(b *testing.B) {
	raw := put(pods, "x", 0, strings.Repeat("x", 1000)).Object.Raw
	for _, writers := range []int{1, 16} {
		for _, engine := range []string{"memory", "disk"} {
			b.Run(fmt.Sprintf("engine=%s/writers=%d", engine, writers), func(b *testing.B) {
				var j journal.Journal = memory.New()
				disk := &syncs{FS: vfs.Default}
				if engine == "disk" {
					var err error
					if j, err = Open(Options{Dir: b.TempDir(), FS: disk, Logger: quiet}); err != nil {
						b.Fatal(err)
					}
				}
				if err := j.Recover(b.Context(), &nowhere{}); err != nil {
					b.Fatal(err)
				}
				defer j.Close()
				var n atomic.Int64
				b.SetParallelism(max(1, writers/2)) // of two processors
				before := disk.n.Load()
				b.ResetTimer()
				write := func() {
					k := object.Key{Resource: pods, Namespace: "default", Name: fmt.Sprint(n.Add(1))}
					e := journal.Entry{Key: k, Object: &object.Object{Key: k, Raw: raw}}
					if _, err := j.Append(context.Background(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
						b.Error(err)
					}
				}
				if writers == 1 {
					for b.Loop() {
						write()
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							write()
						}
					})
				}
				b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "writes/s")
				b.ReportMetric(float64(disk.n.Load()-before)/b.Elapsed().Seconds(), "syncs/s")
			})
		}
	}
}

// BenchmarkRecover reads back 100,000 objects of 1 KB; JOURNAL_BENCH_OBJECTS says
// how many else.
func BenchmarkRecover(b *testing.B) {
	objects := 100_000
	if n, err := fmt.Sscan(os.Getenv("JOURNAL_BENCH_OBJECTS"), &objects); n == 1 && err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	fill(b, dir, objects)
	for b.Loop() {
		j, err := Open(Options{Dir: dir, Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		var sink nowhere
		if err := j.Recover(b.Context(), &sink); err != nil {
			b.Fatal(err)
		}
		if sink.entries != objects {
			b.Fatalf("%d objects", sink.entries)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(objects)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

func fill(b *testing.B, dir string, objects int) {
	j, err := Open(Options{Dir: dir, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	if err := j.Recover(b.Context(), &nowhere{}); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < objects; {
		var batch journal.Batch
		for range min(100, objects-i) {
			k := object.Key{Resource: pods, Namespace: "default", Name: fmt.Sprintf("pod-%07d", i)}
			o, err := object.New(k, map[string]any{
				"metadata": map[string]any{
					"name": k.Name, "namespace": k.Namespace, "uid": fmt.Sprintf("7c6d1a4e-0000-4000-8000-%012d", i),
					"creationTimestamp": "2025-03-04T05:06:07Z", "labels": map[string]any{"app": "web"},
				},
				"spec": map[string]any{"text": fmt.Sprintf("%0800d", i*i)},
			}, 1, time.Unix(7, 0))
			if err != nil {
				b.Fatal(err)
			}
			batch.Entries = append(batch.Entries, journal.Entry{Key: k, Object: o})
			i++
		}
		if _, err := j.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
