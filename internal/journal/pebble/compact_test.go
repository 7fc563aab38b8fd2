package pebble

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestSweep: after a compaction the store holds one record for each live object
// and each entry of the history, what these replaced, and nothing else.
func TestSweep(t *testing.T) {
	fs := vfs.NewMem()
	j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	if err := script(t, j, twin, func() {}); err != nil {
		t.Fatal(err)
	}
	for _, upTo := range []object.Revision{j.Compacted() + 1, twin.Head() - 5, twin.Head() - 1, twin.Head()} {
		if err := j.Compact(t.Context(), upTo); err != nil {
			t.Fatal(err)
		}
		want := map[object.Revision]bool{}
		for _, o := range twin.Live() {
			want[o.Revision] = true
		}
		for _, e := range twin.Entries() {
			if e.Revision > upTo {
				want[e.Revision] = true
				if e.Prev > 0 {
					want[e.Prev] = true
				}
			}
		}
		iter, err := j.life.store.db.NewIter(&pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'s'}})
		if err != nil {
			t.Fatal(err)
		}
		for ok := iter.First(); ok; ok = iter.Next() {
			_, rev, err := splitRecordKey(iter.Key())
			if err != nil {
				t.Fatal(err)
			}
			if !want[rev] {
				t.Errorf("compacted up to %d: the record of %d is there", upTo, rev)
			}
			delete(want, rev)
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
		if len(want) > 0 {
			t.Errorf("compacted up to %d: records are gone: %v", upTo, want)
		}
	}
}
