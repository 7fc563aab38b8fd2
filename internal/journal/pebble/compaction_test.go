package pebble

import (
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTablesStayFew: tables of many resources overlap, and are merged in the
// background.
func TestTablesStayFew(t *testing.T) {
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%01000d", 0)
	var rev object.Revision
	for i := range 300 {
		var b journal.Batch
		for r := range 10 {
			b.Entries = append(b.Entries, put(schema.GroupResource{Resource: fmt.Sprint(r)}, fmt.Sprint(i), 0, text))
		}
		if rev, err = j.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.life.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	// The background may still be at it.
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m := j.life.store.db.Metrics()
		if rev == 3000 && m.Flush.Count >= 20 && m.Compact.Count > 0 && m.Levels[0].Sublevels <= 20 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d revisions, %d flushes, %d compactions, %d sublevels", rev, m.Flush.Count, m.Compact.Count, m.Levels[0].Sublevels)
		}
	}
}
