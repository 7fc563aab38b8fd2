package pebble

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// revisions are objects at the given revisions.
func revisions(revs ...object.Revision) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for i, rev := range revs {
			resource := pods
			if i%2 == 1 {
				resource = nodes
			}
			o := put(resource, fmt.Sprint("object", i), 0, "text").Object
			o.Revision = rev
			if !yield(o, nil) {
				return
			}
		}
	}
}

// TestImport: what has been imported is a journal like any other.
func TestImport(t *testing.T) {
	for _, test := range []struct {
		name string
		fs   vfs.FS
		dir  string
	}{
		{"memory", vfs.NewMem(), "journal"},
		{"disk", nil, t.TempDir() + "/data/journal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := Options{Dir: test.dir, FS: test.fs, Logger: quiet}
			// Two resources may share a revision: an etcd gives them that.
			want := revisions(90, 7, 95, 95, 12)
			if err := Import(t.Context(), opts, 100, want); err != nil {
				t.Fatal(err)
			}
			if err := Import(t.Context(), opts, 100, want); err == nil || !strings.Contains(err.Error(), "must be empty") {
				t.Errorf("imported over a journal: %v", err)
			}
			live := map[object.Key]*object.Object{}
			for o := range want {
				live[o.Key] = o
			}
			for range 2 {
				j, err := Open(opts)
				if err != nil {
					t.Fatal(err)
				}
				twin := journaltest.NewTwin()
				if err := j.Recover(t.Context(), twin); err != nil {
					t.Fatal(err)
				}
				for key, o := range twin.Live() {
					if w := live[key]; w == nil || w.Revision != o.Revision || string(w.Raw) != string(o.Raw) || !w.Written.Equal(o.Written) {
						t.Errorf("%s at %d, want %+v", key, o.Revision, w)
					}
				}
				if len(twin.Live()) != len(live) || j.Compacted() != 100 {
					t.Errorf("%d objects, compacted up to %d", len(twin.Live()), j.Compacted())
				}
				if _, err := j.History(t.Context(), pods, 99, 100, 0); !errors.Is(err, journal.ErrCompacted) {
					t.Errorf("history: %v", err)
				}
				e := put(pods, "object0", twin.Revision(object.Key{Resource: pods, Name: "object0"}), "again")
				rev, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}})
				if err != nil || rev <= 100 {
					t.Fatalf("revision %d, error %v", rev, err)
				}
				live[e.Key] = e.Object
				live[e.Key].Revision = rev
				if err := j.Compact(t.Context(), 100); err != nil {
					t.Error(err)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestImportFails: an import that fails leaves an empty directory, one that was cut
// off leaves none that can be opened.
func TestImportFails(t *testing.T) {
	broken := errors.New("the snapshot is cut off")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	then := func(objects iter.Seq2[*object.Object, error], err error) iter.Seq2[*object.Object, error] {
		return func(yield func(*object.Object, error) bool) {
			for o := range objects {
				if !yield(o, nil) {
					return
				}
			}
			yield(nil, err)
		}
	}
	twice := func(yield func(*object.Object, error) bool) {
		for o := range revisions(1) {
			if !yield(o, nil) {
				return
			}
			yield(o, nil)
		}
	}
	for _, test := range []struct {
		name    string
		ctx     context.Context
		head    object.Revision
		objects iter.Seq2[*object.Object, error]
		want    string
	}{
		{"a broken source", t.Context(), 9, then(revisions(1, 2, 3), broken), broken.Error()},
		{"above the head", t.Context(), 9, revisions(1, 10), "must be from 1 to 9"},
		{"no revision", t.Context(), 9, revisions(0), "must be from 1 to 9"},
		{"twice", t.Context(), 9, twice, "occurs twice"},
		{"head", t.Context(), -1, revisions(), "must be positive"},
		{"cancelled", cancelled, 9, revisions(1), "canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet}
			err := Import(test.ctx, opts, test.head, test.objects)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			names, err := opts.FS.List("journal")
			if err != nil || len(names) != 1 {
				t.Errorf("left %q, error %v", names, err)
			}
			if err := Import(t.Context(), opts, 9, revisions(1, 2)); err != nil {
				t.Errorf("imported again: %v", err)
			}
		})
	}
	t.Run("cut off", func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		var clones []*vfs.MemFS
		objects := func(yield func(*object.Object, error) bool) {
			clones = append(clones, fs.CrashClone(vfs.CrashCloneCfg{}))
			for o := range revisions(1, 2, 3) {
				if !yield(o, nil) {
					return
				}
				clones = append(clones, fs.CrashClone(vfs.CrashCloneCfg{}))
			}
		}
		if err := Import(t.Context(), Options{Dir: "journal", FS: crashable{fs}, Logger: quiet}, 3, objects); err != nil {
			t.Fatal(err)
		}
		for _, clone := range clones {
			var damaged *journal.DamagedError
			if _, err := openTwin(t, clone); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "restore") {
				t.Errorf("opened a part: %v", err)
			}
		}
		twin, err := openTwin(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil || len(twin.Live()) != 3 {
			t.Errorf("%d objects, error %v", len(twin.Live()), err)
		}
	})
}

// TestImportKilledEarly: what is left of an import is refused, however early it ended.
func TestImportKilledEarly(t *testing.T) {
	name, mem := headName+restoring, vfs.NewMem()
	if err := mem.MkdirAll("journal", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Create("journal/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var damaged *journal.DamagedError
	if _, err := Open(Options{Dir: "journal", FS: mem, Logger: quiet}); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "restore") {
		t.Errorf("opened with %s: %v", name, err)
	}
}
