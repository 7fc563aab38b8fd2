package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestReadOnly: nothing is changed, and all can be read.
func TestReadOnly(t *testing.T) {
	for _, s := range specimens(t) {
		t.Run(s.name, func(t *testing.T) {
			files, before := copyFiles(t, s.files)
			j, err := Open(Options{Dir: "journal", FS: files, Logger: quiet, ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			twin := journaltest.NewTwin()
			if err := j.Recover(t.Context(), twin); err != nil {
				t.Fatal(err)
			}
			if err := s.same(twin); err != nil {
				t.Error(err)
			}
			if records, err := j.History(t.Context(), pods, j.Compacted(), twin.Head(), 0); err != nil || len(records) == 0 {
				t.Errorf("%d records, error %v", len(records), err)
			}
			if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 || report.Objects != len(twin.Live()) || report.Head != twin.Head() {
				t.Errorf("check: %+v, error %v", report, err)
			}
			_, err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "x", 0, "")}})
			if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "ReadOnly") {
				t.Errorf("append: %v", err)
			}
			if err := j.Compact(t.Context(), twin.Head()); !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("compact: %v", err)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			after, _ := files.List("journal")
			if len(after) != len(before) {
				t.Errorf("files %q, there were %q", after, before)
			}
			for _, name := range before {
				if !bytes.Equal(readFile(t, files, name), readFile(t, s.files, name)) {
					t.Errorf("%s has been changed", name)
				}
			}
		})
	}
	empty := vfs.NewMem()
	if _, err := Open(Options{Dir: "journal", FS: empty, ReadOnly: true}); err == nil {
		t.Error("opened a directory that is not there")
	}
	if names, _ := empty.List(""); len(names) > 0 {
		t.Errorf("made %q", names)
	}
}

// TestCheck: Check reports every kind of damage to the records, and the damaged
// store cannot be opened.
func TestCheck(t *testing.T) {
	key := func(rev object.Revision) []byte { return appendRecordKey(nil, pods, rev) }
	for _, test := range []struct {
		name string
		harm func(t *testing.T, db *pebble.DB, live object.Revision) error
		want string
	}{
		{"a live object is gone", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			return db.Delete(key(live), pebble.Sync)
		}, "writes since revision"},
		{"unreferenced history is gone", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			return db.Delete(key(live-1), pebble.Sync)
		}, "writes since revision"},
		{"an object is there twice", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			value, closer, err := db.Get(key(live))
			if err != nil {
				return err
			}
			defer closer.Close()
			return db.Set(appendRecordKey(nil, nodes, live-1000), value, pebble.Sync)
		}, "and they differ"},
		{"a record is newer than the last write", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			value, closer, err := db.Get(key(live))
			if err != nil {
				return err
			}
			defer closer.Close()
			return db.Set(key(live+10), value, pebble.Sync)
		}, "but the newest recorded write is"},
		{"the totals are gone", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			return db.Delete([]byte(markTotals), pebble.Sync)
		}, "but the newest recorded write is 0"},
		{"a record replaces what is not older", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			_, value := encoded(t, db, put(pods, "z", live, ""))
			return db.Set(key(live), value, pebble.Sync)
		}, "not older"},
		{"a record cannot be parsed", func(t *testing.T, db *pebble.DB, live object.Revision) error {
			return db.Set(key(live), []byte{1, 0, 3}, pebble.Sync)
		}, "malformed record"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fs := vfs.NewMem()
			j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			twin := journaltest.NewTwin()
			if err := j.Recover(t.Context(), twin); err != nil {
				t.Fatal(err)
			}
			// Revisions far from the first, so that there is room before them.
			for len(twin.Entries()) < 1100 {
				if err := script(t, j, twin, func() {}); err != nil {
					t.Fatal(err)
				}
			}
			var live object.Revision
			for i := range 3 {
				rev, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, fmt.Sprint("live", i), 0, "")}})
				if err != nil {
					t.Fatal(err)
				}
				live = rev
			}
			if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 {
				t.Fatalf("check: %+v, error %v", report, err)
			}
			if err := test.harm(t, j.life.store.db, live); err != nil {
				t.Fatal(err)
			}
			report, err := j.Check(t.Context())
			if err != nil || len(report.Problems) == 0 || !strings.Contains(fmt.Sprint(report.Problems), test.want) {
				t.Errorf("check: %+v, error %v, want %q", report.Problems, err, test.want)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			var damaged *journal.DamagedError
			if _, err := openTwin(t, fs); !errors.As(err, &damaged) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("opened: %v, want %q", err, test.want)
			}
		})
	}
}
