package etcd_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/etcd"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// BenchmarkAppend compares the journal with etcd's own client: the same transactions and the same
// concurrency, with objects of 1.5 KB, on one member that syncs its disk.
func BenchmarkAppend(b *testing.B) {
	text := strings.Repeat("x", 1500)
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("bare/writers=%d", writers), func(b *testing.B) {
			c := startCluster(b, 1, func(c *embed.Config) { c.UnsafeNoFsync = false })
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address(0)}, Logger: zap.NewNop()})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			inParallel(b, writers, func(w, i int, prev *object.Revision) error {
				key := fmt.Sprint("/registry/pods/default/", w)
				raw := entry(b, pod(fmt.Sprint(w)), 0, text).Object.Raw
				response, err := client.Txn(b.Context()).
					If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(*prev))).
					Then(clientv3.OpPut(key, string(raw))).
					Else(clientv3.OpGet(key)).Commit()
				if err == nil && !response.Succeeded {
					err = fmt.Errorf("conflict of writer %d", w)
				}
				if err == nil {
					*prev = object.Revision(response.Header.Revision)
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("journal/writers=%d", writers), func(b *testing.B) {
			c := startCluster(b, 1, func(c *embed.Config) { c.UnsafeNoFsync = false })
			j, err := etcd.Open(b.Context(), etcd.Options{Endpoints: []string{c.address(0)}, Paths: kinds.Paths(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			if err := j.Recover(b.Context(), &sink{}); err != nil {
				b.Fatal(err)
			}
			inParallel(b, writers, func(w, i int, prev *object.Revision) (err error) {
				*prev, err = j.Append(b.Context(), batch(entry(b, pod(fmt.Sprint(w)), *prev, text)))
				return err
			})
		})
	}
}

// inParallel writes b.N times with the given number of writers.
func inParallel(b *testing.B, writers int, write func(w, i int, prev *object.Revision) error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			var prev object.Revision
			for i := 0; left.Add(-1) >= 0; i++ {
				if err := write(w, i, &prev); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// A sink discards all entries: the benchmark measures the journal only.
type sink struct{}

func (*sink) Revision(object.Key) object.Revision       { return 0 }
func (*sink) Apply([]journal.Entry)                     {}
func (*sink) Restore(journal.Entry)                     {}
func (*sink) Unreadable(object.Key, error)              {}
func (*sink) Rebase([]journal.Entry, object.Revision)   {}
func (*sink) Restored(object.Revision, object.Revision) {}
