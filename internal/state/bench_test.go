package state

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
)

func filled(b *testing.B, n int) *State {
	j := memory.New()
	b.Cleanup(func() { j.Close() })
	s, err := Open(b.Context(), j, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		k := benchKey(i)
		e := journal.Entry{Key: k, Object: newObject(b, k, fmt.Sprintf("%1000d", i))}
		if _, err := s.Append(b.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func benchKey(i int) object.Key {
	return object.Key{Resource: pods, Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}
}

// BenchmarkApply replaces one of 5,000 objects.
func BenchmarkApply(b *testing.B) {
	s := filled(b, 5000)
	objects := make([]*object.Object, 5000)
	for i := range objects {
		objects[i], _ = s.Get(benchKey(i))
	}
	k := (*sink)(s)
	rev := s.Revision()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		rev++
		o := objects[i%5000]
		k.Apply([]journal.Entry{{Key: o.Key, Revision: rev, Object: o}})
	}
}

// BenchmarkAppend measures a write through the memory journal.
func BenchmarkAppend(b *testing.B) {
	s := filled(b, 5000)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		o, _ := s.Get(benchKey(i % 5000))
		next := &object.Object{Key: o.Key, Raw: o.Raw, Meta: o.Meta}
		if _, err := s.Append(context.Background(), journal.Batch{Entries: []journal.Entry{{Key: o.Key, Prev: o.Revision, Object: next}}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := filled(b, 5000)
	k := benchKey(2500)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o, _ := s.Get(k); o == nil {
				b.Error("not there")
			}
		}
	})
}

// BenchmarkSnapshot takes a snapshot of 5,000 objects and walks over it.
func BenchmarkSnapshot(b *testing.B) {
	s := filled(b, 5000)
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			s.Snapshot(pods)
		}
	})
	b.Run("walk", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for range s.Snapshot(pods).All("") {
				n++
			}
		}
		if n == 0 {
			b.Error("nothing there")
		}
	})
}

// BenchmarkFanOut writes, and lets 200 watchers see it; the time is that of one
// write seen by all.
func BenchmarkFanOut(b *testing.B) {
	const watchers = 200
	s := filled(b, 100)
	ctx, stop := context.WithCancel(context.Background())
	var all, seen sync.WaitGroup
	for range watchers {
		c, err := s.Watch(pods, s.Revision())
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			for {
				events, wait, err := c.Next(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				for range events {
					seen.Done()
				}
				if len(events) > 0 {
					continue
				}
				select {
				case <-wait:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	i := 0
	for b.Loop() {
		i++
		o, _ := s.Get(benchKey(i % 100))
		next := &object.Object{Key: o.Key, Raw: o.Raw, Meta: o.Meta}
		seen.Add(watchers)
		if _, err := s.Append(ctx, journal.Batch{Entries: []journal.Entry{{Key: o.Key, Prev: o.Revision, Object: next}}}); err != nil {
			b.Fatal(err)
		}
		seen.Wait()
	}
	stop()
	all.Wait()
}
