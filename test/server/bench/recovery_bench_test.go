//go:build linux

package bench_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BenchmarkRecovery measures kapok up on a directory with many objects of 1 KB, until /readyz
// succeeds. The directory is read once before, so that the files are in the page cache.
func BenchmarkRecovery(b *testing.B) {
	for _, objects := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			dir := b.TempDir()
			configMaps(b, filepath.Join(dir, "journal"), objects)
			launch(b, dir, true).stop()
			b.ResetTimer()
			var ready durations
			for range b.N {
				p := launch(b, dir, true)
				ready = append(ready, p.ready)
				b.ReportMetric(milliseconds(p.cpu()), "cpu-ms")
				b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB-at-once")
				b.ReportMetric(p.memory("VmHWM"), "peak-MB") // includes the pages of the binary
				<-time.After(quiet)
				b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB")
				p.stop()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(milliseconds(ready.quantile(0.5)), "ready-p50-ms")
			b.ReportMetric(milliseconds(ready.quantile(1)), "ready-max-ms")
		})
	}
}

// text returns text that compresses badly, like text that has been compressed before.
func text(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"[r.IntN(64)]
	}
	return string(b)
}

// configMaps creates a journal with n objects of 1 KB, in ten namespaces.
func configMaps(b *testing.B, dir string, n int) {
	fields := map[string]any{"f:data": map[string]any{"f:text": map[string]any{}}, "f:metadata": map[string]any{"f:labels": map[string]any{"f:app": map[string]any{}}}}
	now := time.Now().UTC().Truncate(time.Second)
	random := rand.New(rand.NewPCG(1, 2))
	objects := func(yield func(*object.Object, error) bool) {
		for i := range n {
			key := object.Key{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: fmt.Sprintf("ns-%d", i%10), Name: fmt.Sprintf("object-%07d", i)}
			o, err := object.New(key, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{
					"name": key.Name, "namespace": key.Namespace, "uid": fmt.Sprintf("7c6d1a4e-0000-4000-8000-%012d", i),
					"creationTimestamp": now.Format(time.RFC3339), "labels": map[string]any{"app": fmt.Sprintf("app-%d", i%100)},
					"managedFields": []any{map[string]any{
						"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
						"manager": "bench", "operation": "Update", "time": now.Format(time.RFC3339),
					}},
				},
				"data": map[string]any{"text": text(random, 570)},
			}, 0, now)
			if o != nil {
				o.Revision = object.Revision(1 + i)
			}
			if !yield(o, err) {
				return
			}
		}
	}
	if err := pebble.Import(b.Context(), pebble.Options{Dir: dir}, object.Revision(n), objects); err != nil {
		b.Fatal(err)
	}
}
