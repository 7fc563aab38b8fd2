package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

func BenchmarkExamine(b *testing.B) {
	const n = 100_000
	f := newFixture(b, openPebble(b), 1<<20)
	var batch journal.Batch
	for i := range n {
		key := object.Key{Resource: pods, Namespace: fmt.Sprint("ns", i/1000), Name: fmt.Sprint("p", i)}
		obj := tree(key, fmt.Sprint("owner-", i/50))
		obj["data"] = strings.Repeat("x", 700)
		batch.Entries = append(batch.Entries, journal.Entry{Key: key, Object: newObject(b, key, obj)})
		if len(batch.Entries) == 100 {
			if _, err := f.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch.Entries = nil
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := f.examine(); !r.Healthy() || r.Objects != n {
			b.Fatalf("%+v", r)
		}
	}
}
