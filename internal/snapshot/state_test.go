package snapshot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openState(t testing.TB, j journal.Journal) *state.State {
	t.Helper()
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return st
}

func openPebble(t testing.TB, fs vfs.FS) journal.Journal {
	t.Helper()
	j, err := pebble.Open(pebble.Options{Dir: "journal", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// random writes random objects until done is closed.
func random(t *testing.T, st *state.State, seed uint64, done <-chan struct{}) {
	r := rand.New(rand.NewPCG(1, seed))
	resources := []schema.GroupResource{pods, nodes, widgets}
	for {
		select {
		case <-done:
			return
		default:
		}
		key := object.Key{Resource: resources[r.IntN(3)], Name: fmt.Sprintf("o%d-%d", seed, r.IntN(40))}
		if key.Resource != nodes {
			key.Namespace = fmt.Sprint("ns", r.IntN(3))
		}
		e := journal.Entry{Key: key}
		if was, _ := st.Get(key); was != nil {
			e.Prev = was.Revision
		}
		if e.Prev == 0 || r.IntN(3) > 0 {
			e.Object = newObject(t, key, object.Revision(r.IntN(1000)), fmt.Sprint(r.Uint64()))
		}
		if _, err := st.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestConsistent checks that a snapshot during writes has the state at its revision.
func TestConsistent(t *testing.T) {
	for name, j := range map[string]journal.Journal{"memory": memory.New(), "pebble": openPebble(t, vfs.NewMem())} {
		t.Run(name, func(t *testing.T) {
			st := openState(t, j)
			done := make(chan struct{})
			var writers sync.WaitGroup
			for w := range uint64(3) {
				writers.Go(func() { random(t, st, w, done) })
			}
			defer writers.Wait()
			defer close(done)
			for round := range 20 {
				for until := st.Revision() + 50; ; {
					head, changed := st.Changed()
					if head >= until {
						break
					}
					<-changed
				}
				revision, objects := Of(st)
				var file bytes.Buffer
				if err := Write(&file, Header{Revision: revision}, objects); err != nil {
					t.Fatal(err)
				}
				compareAt(t, st, revision, file.Bytes(), fmt.Sprint("round ", round))
			}
		})
	}
}

// compareAt compares a file with lists at its revision.
func compareAt(t *testing.T, st *state.State, revision object.Revision, file []byte, what string) {
	t.Helper()
	_, got, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupResource{nodes, pods, widgets} { // the order of the format
		list, err := st.SnapshotAt(t.Context(), resource, revision)
		if err != nil {
			t.Fatal(err)
		}
		for want := range list.All("") {
			if len(got) == 0 || !sameObject(got[0], want) {
				t.Fatalf("%s: the snapshot of revision %d lacks %s of revision %d", what, revision, want.Key, want.Revision)
			}
			got = got[1:]
		}
	}
	if len(got) > 0 {
		t.Fatalf("%s: the snapshot of revision %d has %s, which did not exist", what, revision, got[0].Key)
	}
}

// TestImport checks that a restored store has the objects of the snapshot, and continues above the
// given revision.
func TestImport(t *testing.T) {
	st := openState(t, memory.New())
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range uint64(2) {
		writers.Go(func() { random(t, st, w, done) })
	}
	for {
		head, changed := st.Changed()
		if head > 500 {
			break
		}
		<-changed
	}
	close(done)
	writers.Wait()
	revision, objects := Of(st)
	var file bytes.Buffer
	if err := Write(&file, Header{Revision: revision}, objects); err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	const bump = 1000
	if err := pebble.Import(t.Context(), pebble.Options{Dir: "journal", FS: fs}, revision+bump, r.Objects()); err != nil {
		t.Fatal(err)
	}
	back := openState(t, openPebble(t, fs))
	if at := back.Revision(); at != revision+bump {
		t.Errorf("restored at revision %d, want %d", at, revision+bump)
	}
	compareAt(t, back, back.Revision(), file.Bytes(), "restored")
	if _, err := back.Watch(pods, revision+bump-1); err == nil {
		t.Error("a watch from a revision before the import is served")
	}
	key := object.Key{Resource: nodes, Name: "new"}
	at, err := back.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Object: newObject(t, key, 0, "")}}})
	if err != nil || at != revision+bump+1 {
		t.Errorf("the next write has revision %d: %v", at, err)
	}
	if report, err := back.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v: %v", report.Problems, err)
	}
}

// TestImportFails checks that an invalid file imports nothing.
func TestImportFails(t *testing.T) {
	object := appendObject(nil, newObject(t, object.Key{Resource: pods, Namespace: "ns", Name: "a"}, 3, ""))
	object = append(object, newObject(t, some(t)[2].Key, 3, "").Raw...)
	r, err := Open(bytes.NewReader(forge(start, object)))
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	if err := pebble.Import(t.Context(), pebble.Options{Dir: "journal", FS: fs}, 9, r.Objects()); err == nil {
		t.Fatal("an incomplete snapshot was restored")
	}
	if st := openState(t, openPebble(t, fs)); len(st.Resources()) > 0 || st.Revision() != 0 {
		t.Errorf("the store has %v at revision %d", st.Resources(), st.Revision())
	}
}
