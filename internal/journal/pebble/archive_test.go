package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// archivePods keeps the revisions of pods, and none of other objects.
var archivePods = journal.Archive{Rules: []journal.ArchiveRule{{Resource: pods, Keep: time.Hour}}}

func openArchive(t *testing.T, fs vfs.FS) (*Journal, *journaltest.Twin) {
	t.Helper()
	j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet, MemTableBytes: 8 << 10, Archive: archivePods})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	return j, twin
}

// lineageOf returns the revisions of a key as text.
func lineageOf(t *testing.T, j *Journal, key object.Key, upTo object.Revision) (all []string) {
	t.Helper()
	err := j.Revisions(t.Context(), key, upTo, func(e journal.Entry, err error) bool {
		if err != nil {
			t.Errorf("%s at revision %d: %v", key, e.Revision, err)
		}
		all = append(all, entryText(&e))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func entryText(e *journal.Entry) string {
	raw := "deleted"
	if e.Object != nil {
		raw = string(e.Object.Raw)
	}
	return fmt.Sprintf("%d after %d: %s", e.Revision, e.Prev, raw)
}

// wantLineage returns the writes of a key up to a revision, newest first, as text.
func wantLineage(all []journal.Entry, key object.Key, upTo object.Revision) (want []string) {
	for i := range all {
		if e := &all[i]; e.Key == key && e.Revision <= upTo {
			want = append(want, entryText(e))
		}
	}
	slices.Reverse(want)
	return want
}

func keysOf(all []journal.Entry, resource schema.GroupResource) map[object.Key]bool {
	keys := map[object.Key]bool{}
	for _, e := range all {
		if e.Key.Resource == resource {
			keys[e.Key] = true
		}
	}
	return keys
}

// newest returns a revision from which the writes of a key can be read: its own, or the head if it
// is deleted.
func newest(twin *journaltest.Twin, key object.Key) object.Revision {
	if rev := twin.Revision(key); rev > 0 {
		return rev
	}
	return twin.Head()
}

// TestArchive: all writes of the objects that a rule names can be read, wherever the history ends,
// from each of them on, and also after a restart.
func TestArchive(t *testing.T) {
	fs := vfs.NewMem()
	j, twin := openArchive(t, fs)
	var all []journal.Entry
	for round := range 3 {
		if err := script(t, j, twin, func() {}); err != nil {
			t.Fatal(err)
		}
		all = append(all, twin.Entries()[len(all):]...)
		for _, upTo := range []object.Revision{j.Compacted(), twin.Head() - 3, twin.Head()} {
			if err := j.Compact(t.Context(), upTo); err != nil {
				t.Fatal(err)
			}
			for key := range keysOf(all, pods) {
				if got, want := lineageOf(t, j, key, newest(twin, key)), wantLineage(all, key, twin.Head()); !slices.Equal(got, want) {
					t.Errorf("round %d, compacted up to %d: %s has %d revisions, want %d\n%q\n%q", round, upTo, key, len(got), len(want), got, want)
				}
			}
			for key := range keysOf(all, nodes) {
				for _, r := range lineageOf(t, j, key, newest(twin, key)) {
					var rev, prev object.Revision
					fmt.Sscanf(r, "%d after %d", &rev, &prev)
					if rev <= upTo && rev != twin.Revision(key) && !replacedAfter(all, rev, upTo) {
						t.Errorf("%s: revision %d is there, although no rule names it", key, rev)
					}
				}
			}
		}
		if r, err := j.Check(t.Context()); err != nil || len(r.Problems) > 0 || r.Archived == 0 || r.ArchivedBytes != j.life.store.archive.bytes {
			t.Fatalf("check: %v, %d in the archive, %d bytes of %d, %v", err, r.Archived, r.ArchivedBytes, j.life.store.archive.bytes, r.Problems)
		}
	}
	for _, e := range all {
		if e.Key.Resource == pods {
			if got, want := lineageOf(t, j, e.Key, e.Revision), wantLineage(all, e.Key, e.Revision); !slices.Equal(got, want) {
				t.Errorf("%s from revision %d on:\n%q\n%q", e.Key, e.Revision, got, want)
			}
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, twin := openArchive(t, fs)
	for key := range keysOf(all, pods) {
		if got, want := lineageOf(t, again, key, newest(twin, key)), wantLineage(all, key, twin.Head()); !slices.Equal(got, want) {
			t.Errorf("after a restart: %s\n%q\n%q", key, got, want)
		}
	}
}

// replacedAfter reports whether an entry that is in the history replaces a revision.
func replacedAfter(all []journal.Entry, rev, compacted object.Revision) bool {
	return slices.ContainsFunc(all, func(e journal.Entry) bool { return e.Prev == rev && e.Revision > compacted })
}

// TestArchiveCrash: a crash at any moment loses no acknowledged revision, also in the middle of a
// sweep.
func TestArchiveCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j, twin := openArchive(t, crashable{fs})
	type crash struct {
		fs *vfs.MemFS
		at object.Revision
	}
	var crashes []crash
	rng := rand.New(rand.NewPCG(seeds.Of(t), 1))
	err := script(t, j, twin, func() {
		for _, percent := range []int{0, rng.IntN(101)} {
			crashes = append(crashes, crash{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), twin.Head()})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	all := twin.Entries()
	for _, c := range crashes {
		j, twin := openArchive(t, c.fs)
		if twin.Head() < c.at {
			t.Fatalf("revision %d is lost", c.at)
		}
		for range 2 { // as it is, and once an interrupted sweep has been completed
			for key := range keysOf(all, pods) {
				if got, want := lineageOf(t, j, key, newest(twin, key)), wantLineage(all, key, twin.Head()); !slices.Equal(got, want) {
					t.Fatalf("crash at revision %d: %s\n%q\n%q", c.at, key, got, want)
				}
			}
			if err := j.Compact(t.Context(), j.Compacted()); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchiveExpires: what has been in the archive for its time is removed, and the oldest of it
// if it is too large.
func TestArchiveExpires(t *testing.T) {
	fs := vfs.NewMem()
	j, twin := openArchive(t, fs)
	if err := script(t, j, twin, func() {}); err != nil {
		t.Fatal(err)
	}
	all := twin.Entries()
	if err := j.Compact(t.Context(), twin.Head()); err != nil {
		t.Fatal(err)
	}
	s := j.life.store
	count := func() (n int) {
		for key := range keysOf(all, pods) {
			n += len(lineageOf(t, j, key, newest(twin, key)))
		}
		return n
	}
	expire := func(in time.Duration, limit int64) {
		t.Helper()
		if err := s.expire(context.Background(), time.Now().Add(in), limit); err != nil {
			t.Fatal(err)
		}
		bytes := s.archive.bytes
		s.archive.counted = false
		if err := s.countArchive(context.Background()); err != nil || bytes != s.archive.bytes {
			t.Fatalf("counted %d bytes, are %d, %v", bytes, s.archive.bytes, err)
		}
	}
	before, bytes := count(), s.archive.bytes
	if bytes == 0 {
		t.Fatal("the archive is empty")
	}
	expire(59*time.Minute, bytes)
	if n := count(); n != before {
		t.Fatalf("before the time: %d revisions of %d", n, before)
	}
	expire(0, bytes/2)
	if n := count(); n >= before || s.archive.bytes > bytes/2 || s.archive.bytes < bytes/4 {
		t.Fatalf("half of the size: %d revisions of %d, %d bytes of %d", n, before, s.archive.bytes, bytes)
	}
	for key := range keysOf(all, pods) { // the newest are still there
		got, want := lineageOf(t, j, key, newest(twin, key)), wantLineage(all, key, twin.Head())
		if len(got) == 0 || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%s:\n%q\n%q", key, got, want)
		}
	}
	expire(61*time.Minute, bytes)
	live := 0
	for key := range twin.Live() {
		if key.Resource == pods {
			live++
		}
	}
	if n := count(); n != live || s.archive.bytes != 0 {
		t.Errorf("after the time: %d revisions, %d pods, %d bytes", n, live, s.archive.bytes)
	}
}

// TestArchiveDamage: the doctor names a record of the archive that cannot be read, and its revision
// is returned with the reason, between those that can.
func TestArchiveDamage(t *testing.T) {
	fs := vfs.NewMem()
	j, twin := openArchive(t, fs)
	if err := script(t, j, twin, func() {}); err != nil {
		t.Fatal(err)
	}
	all := twin.Entries()
	if err := j.Compact(t.Context(), twin.Head()); err != nil {
		t.Fatal(err)
	}
	damaged := all[0] // a pod, created and replaced
	if damaged.Key.Resource != pods {
		t.Fatalf("%s is not a pod", damaged.Key)
	}
	at := appendArchiveKey(nil, damaged.Key, damaged.Revision)
	value, closer, err := j.life.store.db.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	worse := slices.Clone(value)
	closer.Close()
	worse[len(worse)-1] = 'x'
	if err := j.life.store.db.Set(at, worse, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	r, err := j.Check(t.Context())
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Key != damaged.Key || r.Problems[0].Revision != damaged.Revision {
		t.Errorf("check: %v, %+v", err, r.Problems)
	}
	var good, bad int
	if err := j.Revisions(t.Context(), damaged.Key, newest(twin, damaged.Key), func(e journal.Entry, err error) bool {
		switch {
		case err == nil:
			good++
		case e.Revision == damaged.Revision:
			bad++
		default:
			t.Errorf("revision %d: %v", e.Revision, err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if want := len(wantLineage(all, damaged.Key, twin.Head())); bad != 1 || good != want-1 {
		t.Errorf("%d good and %d bad revisions of %d", good, bad, want)
	}
}
