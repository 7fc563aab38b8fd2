package pebble

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

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
			if err := flush(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush flushes the store. A revival waits for it, as the flush of a closed store never ends.
func flush(j *Journal) error {
	s, release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	return s.db.Flush()
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
// for some time, until none is left to fail. Nothing may hang or panic, nothing that
// was acknowledged may be lost, nothing that was not may be seen, and once the disk
// is well again the journal takes writes again by itself.
func TestFailingDisk(t *testing.T) {
	isWrite := func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }
	isRead := func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsRead }
	isSync := func(op errorfs.Op) bool {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			return true
		}
		return false
	}
	for _, test := range []struct {
		name   string
		which  func(errorfs.Op) bool
		err    error
		always bool
	}{
		{"a write", isWrite, errorfs.ErrInjected, false},
		{"all writes", isWrite, errorfs.ErrInjected, true},
		{"a sync", isSync, syscall.EIO, false},
		{"a full disk", isWrite, syscall.ENOSPC, true},
		{"read only", isWrite, syscall.EROFS, true},
		{"a read", isRead, errorfs.ErrInjected, false},
		{"all reads", isRead, errorfs.ErrInjected, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			step := int64(7)
			if *thorough {
				step = 1
			}
			first := int64(seeds.Of(t) % uint64(step))
			for i := first; ; i += step {
				f := fault{which: test.which, err: test.err, always: test.always, at: i}
				f.run(t)
				if f.failed.Load() == nil {
					t.Logf("%d calls, failed every %dth from the %dth on", i, step, first)
					return
				}
			}
		})
	}
}

// forgetful is a file system that forgets what it could not write: once a sync of a
// file has failed, what was not synced of it looks like any other part of the file,
// further syncs succeed, and still a crash takes it away. So do those of Linux.
type forgetful struct {
	vfs.FS
	mu     sync.Mutex
	failed map[string]bool // the names of files
}

type forgetfulFile struct {
	vfs.File
	fs   *forgetful
	name string
}

func (f *forgetful) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failed, name)
	return forgetfulFile{file, f, name}, nil
}

func (f *forgetful) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return forgetfulFile{file, f, name}, nil
}

func (f forgetfulFile) sync(sync func() error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.failed[f.name] {
		return nil
	}
	err := sync()
	f.fs.failed[f.name] = err != nil
	return err
}

func (f forgetfulFile) Sync() error     { return f.sync(f.File.Sync) }
func (f forgetfulFile) SyncData() error { return f.sync(f.File.SyncData) }

// fault makes some calls of a disk fail.
type fault struct {
	which  func(errorfs.Op) bool // the calls that count
	err    error                 // what they return
	at     int64                 // the one that fails, from 0 on
	always bool                  // as do those after it, until the disk is healed

	calls  atomic.Int64
	failed atomic.Pointer[errorfs.Op]
	healed atomic.Bool
}

func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.which(op) || f.healed.Load() {
		return nil
	}
	if n := f.calls.Add(1) - 1; n == f.at || f.always && n > f.at {
		f.failed.CompareAndSwap(nil, &op)
		return f.err
	}
	return nil
}

func (f *fault) String() string { return fmt.Sprintf("call %d: %+v", f.at, f.failed.Load()) }

// run runs the script on a disk with the fault, and reads back what there is.
func (f *fault) run(t *testing.T) {
	mem := vfs.NewCrashableMem()
	files := crashable{&forgetful{FS: errorfs.Wrap(mem, f), failed: map[string]bool{}}}
	defer func() {
		if t.Failed() {
			t.Log(f)
		}
	}()
	twin := journaltest.NewTwin()
	opts := Options{Dir: "journal", FS: files, Logger: quiet, MemTableBytes: 8 << 10, firstRetry: 100 * time.Microsecond}
	j, err := Open(opts)
	if err == nil {
		if err = j.Recover(t.Context(), twin); err == nil {
			var acknowledged object.Revision
			err = script(t, j, twin, func() { acknowledged = twin.Head() })
			f.down(t, j, acknowledged, err)
			f.checkClones(t, mem, twin, acknowledged)
			f.comeBack(t, j, mem, twin)
		}
		f.healed.Store(true)
		if err := j.Close(); err != nil && f.failed.Load() == nil {
			t.Fatalf("close on a good disk: %v", err)
		}
	}
	if f.failed.Load() == nil && err != nil {
		t.Fatalf("nothing failed: %v", err)
	}
	f.checkClones(t, mem, twin, twin.Head())
}

// checkClones reads back what a crash would leave, with all or nothing of what was
// not synced. Entries whose outcome is not known may be there, as a whole.
func (f *fault) checkClones(t *testing.T, mem *vfs.MemFS, twin *journaltest.Twin, acknowledged object.Revision) {
	t.Helper()
	wrote := twin.Entries()
	for _, percent := range []int{0, 100} {
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
		got, compacted := readBack(t, clone)
		unknown := 0
		all := wrote
		for _, e := range got.Entries() {
			if e.Revision > acknowledged && e.Key.Name != "new" {
				unknown++
				if len(wrote) == 0 || e.Revision > wrote[len(wrote)-1].Revision {
					all = append(all, e)
				}
			}
		}
		if unknown != 0 && unknown != 2 {
			t.Fatalf("%d entries of a batch of 2 were read back", unknown)
		}
		checkPrefix(t, all, acknowledged, got, compacted)
	}
}

// down checks a journal whose script has ended with err.
func (f *fault) down(t *testing.T, j *Journal, acknowledged object.Revision, err error) {
	t.Helper()
	if err == nil || errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
		return // all was well, or something could not be read
	}
	want := journal.ErrUnavailable
	if errors.Is(f.err, syscall.ENOSPC) {
		want = journal.ErrFull
	}
	if !errors.Is(err, want) && !errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("the script ended with %v", err)
	}
	// A journal may come back, for a while, that has all it needs to open in memory.
	if f.always && f.failed.Load().Kind.ReadOrWrite() == errorfs.OpIsWrite {
		_, err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "new", 0, "")}})
		if !errors.Is(err, want) || !errors.Is(err, f.err) || !strings.Contains(err.Error(), "journal") {
			t.Fatalf("append on a bad disk: %v", err)
		}
		if err := j.Compact(t.Context(), acknowledged); !errors.Is(err, want) {
			t.Fatalf("compact on a bad disk: %v", err)
		}
		await(t, func() bool { // that while is over at the next write
			_, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "new", 0, "")}})
			return errors.Is(err, want) && errors.Is(j.Health(), want)
		})
	}
	// What is there can be read, or not for the moment; nothing is damaged.
	_, err = j.History(t.Context(), pods, j.Compacted(), acknowledged, 0)
	if err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, journal.ErrUnavailable) {
		t.Fatalf("history on a bad disk: %v", err)
	}
}

// comeBack heals the disk, waits for the journal, and runs the script again. What is seen then is
// durable, including writes with an unknown outcome.
func (f *fault) comeBack(t *testing.T, j *Journal, mem *vfs.MemFS, twin *journaltest.Twin) {
	t.Helper()
	f.healed.Store(true)
	await(t, func() bool { return j.Health() == nil })
	f.checkDurable(t, mem, twin)
	for range 2 {
		if err := script(t, j, twin, func() {}); err != nil {
			t.Fatalf("after the return: %v", err)
		}
	}
	f.checkDurable(t, mem, twin)
	if n := j.Stats(); n.Returns > n.Failures {
		t.Fatalf("%+v", n)
	}
	report, err := j.Check(t.Context())
	if err != nil || len(report.Problems) > 0 || report.Objects != len(twin.Live()) {
		t.Fatalf("check: %+v, error %v, %d objects", report, err, len(twin.Live()))
	}
}

// checkDurable checks that all that is seen survives a crash.
func (f *fault) checkDurable(t *testing.T, mem *vfs.MemFS, twin *journaltest.Twin) {
	t.Helper()
	got, compacted := readBack(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	checkPrefix(t, twin.Entries(), twin.Head(), got, compacted)
}

// await waits until a condition holds.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("timed out waiting for the condition")
		}
	}
}
