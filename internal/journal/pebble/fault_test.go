package pebble

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pods  = schema.GroupResource{Resource: "pods"}
	nodes = schema.GroupResource{Resource: "nodes"}
)

func put(resource schema.GroupResource, name string, prev object.Revision, text string) journal.Entry {
	k := object.Key{Resource: resource, Name: name}
	o, err := object.New(k, map[string]any{"metadata": map[string]any{"uid": name, "x": text}}, 1, time.Unix(1, 0))
	if err != nil {
		panic(err) // a tree like this one can be encoded
	}
	return journal.Entry{Key: k, Prev: prev, Object: o}
}

// script writes until the journal takes no more: batches, replacements,
// deletions, flushes and compactions. It calls acknowledged after each success.
func script(t *testing.T, j *Journal, twin *journaltest.Twin, acknowledged func()) error {
	text := fmt.Sprintf("%0300d", 0)
	for i := range 30 {
		var b journal.Batch
		for n, resource := range []schema.GroupResource{pods, nodes} {
			e := put(resource, fmt.Sprint(i%4), 0, text)
			e.Prev = twin.Revision(e.Key)
			if (i+n)%5 == 4 && e.Prev > 0 {
				e.Object = nil
			}
			b.Entries = append(b.Entries, e)
		}
		if _, err := j.Append(t.Context(), b); err != nil {
			return err
		}
		acknowledged()
		if i%10 == 7 {
			if err := j.Compact(t.Context(), twin.Head()-5); err != nil {
				return err
			}
			acknowledged()
		}
		if i%10 == 9 {
			if err := j.db.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBack opens a directory and returns what it holds.
func readBack(t *testing.T, fs vfs.FS) (twin *journaltest.Twin, compacted object.Revision) {
	t.Helper()
	j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet, MemTableBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	twin = journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	compacted = j.Compacted()
	// It is not only there, it also works.
	e := put(pods, "afterwards", 0, "")
	e.Prev = twin.Revision(e.Key)
	probe := journaltest.NewTwin()
	if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "new", 0, "")}}); err != nil {
		t.Fatalf("append after recovery: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(Options{Dir: "journal", FS: fs, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	if err := j.Recover(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
	if err := twin.SameObjects(probe); err != nil {
		t.Fatalf("second recovery: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return twin, compacted
}

// checkPrefix checks that what was read back is what was written up to some
// revision, and reaches as far as the acknowledged one.
func checkPrefix(t *testing.T, wrote []journal.Entry, acknowledged object.Revision, got *journaltest.Twin, compacted object.Revision) {
	t.Helper()
	head := acknowledged
	for _, e := range got.Entries() {
		if e.Key.Name != "new" {
			head = max(head, e.Revision)
		}
	}
	want := journaltest.NewTwin()
	for _, e := range wrote {
		if e.Revision <= head {
			want.Restore(e)
		}
	}
	now := journaltest.NewTwin()
	for _, e := range got.Entries() {
		if e.Key.Name != "new" {
			now.Restore(e)
		}
	}
	want.Restored(head, 0)
	now.Restored(max(head, compacted), 0)
	if err := want.SameObjects(now); err != nil {
		t.Fatalf("acknowledged %d, read back %d: %v", acknowledged, head, err)
	}
	if err := want.SameEntries(now, compacted); err != nil {
		t.Fatalf("acknowledged %d, read back %d: %v", acknowledged, head, err)
	}
}

// TestFailingDisk lets the first, second, third ... call of the disk fail, once or
// for ever, until none is left to fail. Nothing may hang or panic, nothing that was
// acknowledged may be lost, and nothing that was not may be seen.
func TestFailingDisk(t *testing.T) {
	isWrite := func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }
	isRead := func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsRead }
	for _, test := range []struct {
		name    string
		which   func(errorfs.Op) bool
		forever bool
	}{
		{"a write", isWrite, false},
		{"all writes", isWrite, true},
		{"a read", isRead, false},
		{"all reads", isRead, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := int64(0); ; i++ {
				f := fault{which: test.which, forever: test.forever, at: i}
				f.run(t)
				if f.failed.Load() == nil {
					t.Logf("%d calls failed", i)
					return
				}
			}
		})
	}
}

// fault makes some calls of a disk fail.
type fault struct {
	which   func(errorfs.Op) bool // the calls that count
	at      int64                 // the one that fails, from 0 on
	forever bool                  // as do those after it

	calls  atomic.Int64
	failed atomic.Pointer[errorfs.Op]
}

func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.which(op) {
		return nil
	}
	if n := f.calls.Add(1) - 1; n == f.at || f.forever && n > f.at {
		f.failed.CompareAndSwap(nil, &op)
		return errorfs.ErrInjected
	}
	return nil
}

func (f *fault) String() string { return fmt.Sprintf("call %d: %+v", f.at, f.failed.Load()) }

// run runs the script on a disk with the fault, and reads back what there is.
func (f *fault) run(t *testing.T) {
	mem := vfs.NewCrashableMem()
	defer func() {
		if t.Failed() {
			t.Log(f)
		}
	}()
	twin := journaltest.NewTwin()
	var acknowledged object.Revision
	j, err := Open(Options{Dir: "journal", FS: errorfs.Wrap(mem, f), Logger: quiet, MemTableBytes: 8 << 10})
	if err == nil {
		if err = j.Recover(t.Context(), twin); err == nil {
			err = script(t, j, twin, func() { acknowledged = twin.Head() })
			f.after(t, j, twin, acknowledged, err)
		}
		failed := j.disk.err()
		if err := j.Close(); failed != nil && err == nil {
			t.Fatal("close on a bad disk says that all is well")
		}
	}
	if f.failed.Load() == nil && err != nil {
		t.Fatalf("nothing failed: %v", err)
	}
	// Entries whose outcome is not known are not in the twin: they may be on disk,
	// as a whole.
	for _, files := range []vfs.FS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
		got, compacted := readBack(t, files)
		unknown := 0
		wrote := twin.Entries()
		for _, e := range got.Entries() {
			if e.Revision > acknowledged && e.Key.Name != "new" {
				unknown++
				wrote = append(wrote, e)
			}
		}
		if unknown != 0 && unknown != 2 {
			t.Fatalf("%d entries of a batch of 2 were read back", unknown)
		}
		checkPrefix(t, wrote, acknowledged, got, compacted)
	}
}

// after checks a journal whose script has ended with err.
func (f *fault) after(t *testing.T, j *Journal, twin *journaltest.Twin, acknowledged object.Revision, err error) {
	t.Helper()
	if twin.Head() != acknowledged {
		t.Fatalf("revision %d is visible, acknowledged is %d", twin.Head(), acknowledged)
	}
	failed := j.disk.err()
	switch {
	case err == nil:
		return
	case failed == nil && !errors.Is(err, errorfs.ErrInjected):
		t.Fatalf("refused on a good disk: %v", err)
	case failed == nil:
		return // something could not be read
	}
	_, err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "new", 0, "")}})
	if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("append on a bad disk: %v", err)
	}
	if err := j.Compact(t.Context(), twin.Head()); !errors.Is(err, journal.ErrUnavailable) {
		t.Fatalf("compact on a bad disk: %v", err)
	}
	// What is there can still be read, unless it is reading that fails.
	_, err = j.History(t.Context(), pods, j.Compacted(), acknowledged, 0)
	if err != nil && !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("history on a bad disk: %v", err)
	}
}
