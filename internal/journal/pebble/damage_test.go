package pebble

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// thorough takes the samples of the tests of this package closer.
var thorough = flag.Bool("thorough", false, "damage many more bytes, and fail every call of the disk")

// damage is something that befalls a file.
type damage struct {
	name string
	do   func(rng *rand.Rand, content []byte) []byte // nil deletes the file
}

var damages = []damage{
	{"flip", func(rng *rand.Rand, b []byte) []byte {
		if len(b) > 0 {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		return b
	}},
	{"flip an early bit", func(rng *rand.Rand, b []byte) []byte {
		if len(b) > 0 {
			b[rng.IntN(min(len(b), 64))] ^= 1 << rng.IntN(8)
		}
		return b
	}},
	{"flip a late bit", func(rng *rand.Rand, b []byte) []byte {
		if len(b) > 0 {
			b[len(b)-1-rng.IntN(min(len(b), 64))] ^= 1 << rng.IntN(8)
		}
		return b
	}},
	{"truncate", func(rng *rand.Rand, b []byte) []byte { return b[:rng.IntN(len(b)+1)] }},
	{"cut off a little", func(rng *rand.Rand, b []byte) []byte { return b[:len(b)-rng.IntN(min(len(b), 100)+1)] }},
	{"zero a part", func(rng *rand.Rand, b []byte) []byte {
		from := rng.IntN(len(b) + 1)
		clear(b[from:min(len(b), from+rng.IntN(4096))])
		return b
	}},
	{"cut out a part", func(rng *rand.Rand, b []byte) []byte {
		from := rng.IntN(len(b) + 1)
		return append(b[:from], b[min(len(b), from+rng.IntN(4096)):]...)
	}},
	{"delete", func(*rand.Rand, []byte) []byte { return nil }},
}

// specimen is a store to be damaged, and what it holds.
type specimen struct {
	name  string
	files *vfs.MemFS
	twin  *journaltest.Twin
	from  object.Revision // there is history after it

	// acknowledged is the revision up to which it must be read back: that of the last
	// write, unless the power failed before it was recorded on the disk.
	acknowledged object.Revision
}

// specimens makes stores with tables, logs and lists in different states.
func specimens(t *testing.T) []specimen {
	var all []specimen
	for _, test := range []struct {
		name     string
		memtable uint64
		closed   bool
		percent  int // of what was not synced that a crash leaves
		return_  bool
		swept    bool // all history, without a trace in the tables
	}{
		{name: "logs only", memtable: 1 << 20, percent: 100},
		{name: "killed", memtable: 8 << 10, percent: 100},
		{name: "power loss", memtable: 8 << 10, percent: 0},
		{name: "closed", memtable: 8 << 10, closed: true, percent: 100},
		{name: "swept", memtable: 8 << 10, percent: 100, swept: true},
		{name: "came back", memtable: 8 << 10, percent: 100, return_: true},
	} {
		fs := vfs.NewCrashableMem()
		j, err := Open(Options{Dir: "journal", FS: crashable{fs}, Logger: quiet, MemTableBytes: test.memtable, firstRetry: 100 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		twin := journaltest.NewTwin()
		if err := j.Recover(t.Context(), twin); err != nil {
			t.Fatal(err)
		}
		if err := script(t, j, twin, func() {}); err != nil {
			t.Fatal(err)
		}
		if test.return_ {
			j.life.store.disk.fail(errors.New("as if"))
			await(t, func() bool { return j.Health() == nil })
		}
		if test.swept {
			if err := j.Compact(t.Context(), twin.Head()); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a flush, for what a sweep leaves in the log
				if err := j.life.store.db.Compact(t.Context(), []byte("a"), []byte("z"), false); err != nil {
					t.Fatal(err)
				}
			}
		}
		// So that there is a log behind the last flush, and history behind the last compaction.
		for i := range 5 {
			e := put(pods, fmt.Sprint("late", i), 0, "late")
			if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
				t.Fatal(err)
			}
		}
		from := j.Compacted()
		if test.closed {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: test.percent, RNG: rand.New(rand.NewPCG(1, 1))})
		if !test.closed {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		acknowledged := twin.Head()
		if test.percent < 100 {
			h, err := readHead(clone, "journal")
			if err != nil {
				t.Fatal(err)
			}
			acknowledged = h.revision
		}
		all = append(all, specimen{test.name, clone, twin, from, acknowledged})
	}
	return all
}

func copyFiles(t *testing.T, from vfs.FS) (to *vfs.MemFS, names []string) {
	t.Helper()
	to = vfs.NewMem()
	if err := to.MkdirAll("journal", 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := from.List("journal")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		writeFile(t, to, name, readFile(t, from, name))
	}
	return to, names
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open("journal/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeFile(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create("journal/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamage damages files, one at a time: what is read back is exactly what was
// acknowledged, or the store is refused, and then it is still refused the next time,
// no file has been removed, and Salvage reads nothing that was never written.
func TestDamage(t *testing.T) {
	seed := seeds.Of(t)
	samples := 4
	if *thorough {
		samples = 200
	}
	for _, s := range specimens(t) {
		t.Run(s.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			_, names := copyFiles(t, s.files)
			refused, whole := 0, 0
			for _, name := range names {
				for _, d := range damages {
					n := samples
					if d.name == "delete" {
						n = 1
					}
					for range n {
						if s.damage(t, rng, name, d) {
							refused++
						} else {
							whole++
						}
					}
				}
			}
			t.Logf("%d files: refused %d times, read back %d times", len(names), refused, whole)
			if refused == 0 || whole == 0 {
				t.Error("the damages are all the same")
			}
		})
	}
}

// damage damages a file of a copy, and reports whether the store was rejected.
func (s *specimen) damage(t *testing.T, rng *rand.Rand, name string, d damage) (refused bool) {
	t.Helper()
	files, before := copyFiles(t, s.files)
	content := d.do(rng, readFile(t, files, name))
	if content == nil {
		if err := files.Remove("journal/" + name); err != nil {
			t.Fatal(err)
		}
	} else {
		writeFile(t, files, name, content)
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %s: %s", d.name, name, fmt.Sprintf(format, args...))
	}
	twin, err := openTwin(t, files)
	if err == nil {
		if err := s.same(twin); err != nil {
			fail("%v", err)
		}
		return false
	}
	var damaged *journal.DamagedError
	if !errors.As(err, &damaged) && !errors.Is(err, errFormat) {
		fail("%v", err)
	} else if damaged != nil && (damaged.What == "" || !strings.Contains(damaged.Advice, "restore")) {
		fail("%v has no advice to restore a backup", err)
	}
	after, _ := files.List("journal")
	for _, file := range before {
		if !slices.Contains(after, file) && file != name && !strings.HasSuffix(file, ".dbtmp") {
			fail("%s is gone after the store has been refused", file)
		}
	}
	s.salvage(t, files, fail)
	if twin, err := openTwin(t, files); err == nil {
		if err := s.same(twin); err != nil {
			fail("opened again it is not refused: %v", err)
		}
	}
	return true
}

// same checks that what was read back is what was written, as far as it must be.
func (s *specimen) same(got *journaltest.Twin) error {
	if got.Head() < s.acknowledged {
		return fmt.Errorf("read back up to %d, acknowledged %d", got.Head(), s.acknowledged)
	}
	want := journaltest.NewTwin()
	for _, e := range s.twin.Entries() {
		if e.Revision <= got.Head() {
			want.Restore(e)
		}
	}
	if err := want.SameObjects(got); err != nil {
		return err
	}
	return want.SameEntries(got, s.from)
}

func openTwin(t *testing.T, files vfs.FS) (*journaltest.Twin, error) {
	j, err := Open(Options{Dir: "journal", FS: files, Logger: quiet, MemTableBytes: 8 << 10})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	twin := journaltest.NewTwin()
	return twin, j.Recover(t.Context(), twin)
}

// salvage checks that every object that is salvaged was once written as it is.
func (s *specimen) salvage(t *testing.T, files vfs.FS, fail func(string, ...any)) {
	t.Helper()
	wrote := map[object.Revision]*object.Object{}
	for _, e := range s.twin.Entries() {
		if e.Object != nil {
			wrote[e.Revision] = e.Object
		}
	}
	seen := map[object.Key]bool{}
	found, err := Salvage(t.Context(), Options{Dir: "journal", FS: files, Logger: quiet}, func(o *object.Object) error {
		if w := wrote[o.Revision]; w == nil || w.Key != o.Key || string(w.Raw) != string(o.Raw) {
			fail("salvaged %s at %d, which was never written", o.Key, o.Revision)
		}
		if seen[o.Key] {
			fail("salvaged %s twice", o.Key)
		}
		seen[o.Key] = true
		return nil
	})
	if err != nil {
		fail("salvage: %v", err)
	}
	for key := range s.twin.Live() {
		if !seen[key] && len(found.Problems) == 0 {
			fail("%s was not salvaged, and no problem was found", key)
		}
	}
}

// TestSalvageWhole: of a store that is whole Salvage reads everything, in its newest
// version, and finds no problem.
func TestSalvageWhole(t *testing.T) {
	for _, s := range specimens(t) {
		t.Run(s.name, func(t *testing.T) {
			files, before := copyFiles(t, s.files)
			live := s.twin.Live()
			found, err := Salvage(t.Context(), Options{Dir: "journal", FS: files, Logger: quiet}, func(o *object.Object) error {
				if l := live[o.Key]; l == nil || l.Revision != o.Revision || string(l.Raw) != string(o.Raw) {
					t.Errorf("salvaged %s at %d", o.Key, o.Revision)
				}
				delete(live, o.Key)
				return nil
			})
			if err != nil || len(found.Problems) > 0 || len(live) > 0 || found.Head != s.twin.Head() || found.Objects != len(s.twin.Live()) {
				t.Errorf("%+v, error %v, not salvaged: %v", found, err, live)
			}
			for _, name := range before {
				if string(readFile(t, files, name)) != string(readFile(t, s.files, name)) {
					t.Errorf("%s has been changed", name)
				}
			}
			if after, _ := files.List("journal"); len(after) != len(before) {
				t.Errorf("files %q, there were %q", after, before)
			}
			stop := errors.New("enough")
			_, err = Salvage(t.Context(), Options{Dir: "journal", FS: files, Logger: quiet}, func(*object.Object) error { return stop })
			if !errors.Is(err, stop) {
				t.Errorf("stopped with %v", err)
			}
		})
	}
}

// TestSalvageOldLogs: records in logs up to the revision to which the tables have
// been swept are ignored, and so are removed ones.
func TestSalvageOldLogs(t *testing.T) {
	db := openDB(t)
	_, value := encoded(t, db, put(pods, "a", 0, ""))
	gone := appendRecordKey(nil, pods, 7)
	for _, test := range []struct {
		rev  object.Revision
		log  bool
		want bool
	}{{4, true, false}, {5, true, false}, {6, true, true}, {4, false, true}, {7, false, false}, {7, true, false}} {
		s := salvage{swept: 5, gone: map[string]struct{}{string(gone): {}}}
		r, ok, err := s.record(&piece{log: test.log, kind: pebble.InternalKeyKindSet, key: appendRecordKey(nil, pods, test.rev), value: value})
		if err != nil || ok != test.want || ok && (r.revision != test.rev || r.key() != (object.Key{Resource: pods, Name: "a"})) {
			t.Errorf("%+v: %+v, %t, error %v", test, r, ok, err)
		}
	}
}
