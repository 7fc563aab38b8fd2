package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// encoded returns the key and value that an entry is stored as.
func encoded(t testing.TB, db *pebble.DB, e journal.Entry) (key, value []byte) {
	batch := db.NewBatch()
	defer batch.Close()
	var w writer
	if err := w.put(batch, &e); err != nil {
		t.Fatal(err)
	}
	_, key, value, _, err := first(batch)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(key), bytes.Clone(value)
}

func first(b *pebble.Batch) (kind pebble.InternalKeyKind, key, value []byte, ok bool, err error) {
	r := b.Reader()
	return r.Next()
}

func openDB(t testing.TB) *pebble.DB {
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), Logger: logger{quiet, newDisk(vfs.NewMem(), quiet, new(atomic.Int64))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestRecord(t *testing.T) {
	db := openDB(t)
	at := time.Date(2025, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	for _, e := range []journal.Entry{
		{Key: object.Key{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "ns", Name: "a"}, Prev: 1 << 62, Revision: 1<<62 + 1},
		{Key: object.Key{Resource: schema.GroupResource{Resource: "nodes"}, Name: strings.Repeat("n", 300)}, Prev: 1, Revision: 2},
		{Key: object.Key{Resource: schema.GroupResource{Resource: "nodes"}, Name: "b"}, Revision: 255,
			Object: &object.Object{Schema: 1<<64 - 1, Written: at, Raw: []byte(`{"metadata":{"uid":"u"}}`)}},
		{Key: object.Key{Resource: schema.GroupResource{Resource: "nodes"}, Name: "c"}, Revision: 1,
			Object: &object.Object{Raw: []byte(`{"metadata":{"uid":"u"}}`)}},
	} {
		key, value := encoded(t, db, e)
		prefix, rev, err := splitRecordKey(key)
		if err != nil {
			t.Fatal(err)
		}
		resource, err := resourceOf(prefix)
		if err != nil || resource != e.Key.Resource || rev != e.Revision {
			t.Errorf("key of %s at %d, want %s at %d: %v", resource, rev, e.Key.Resource, e.Revision, err)
		}
		r, err := parseRecord(value)
		if err != nil {
			t.Fatal(err)
		}
		r.resource, r.revision = resource, rev
		got, err := (&decoder{}).entry(r.own())
		if err != nil {
			t.Fatal(err)
		}
		if got.Key != e.Key || got.Prev != e.Prev || got.Revision != e.Revision || (got.Object == nil) != (e.Object == nil) {
			t.Errorf("read %+v, want %+v", got, e)
		}
		if e.Object != nil {
			if o := got.Object; o.Schema != e.Object.Schema || !o.Written.Equal(e.Object.Written) || string(o.Raw) != string(e.Object.Raw) || o.Revision != e.Revision {
				t.Errorf("read %+v, want %+v", o, e.Object)
			}
			clear(value) // the object must not be part of the value
			if string(got.Object.Raw) != string(e.Object.Raw) || got.Key.Name != e.Key.Name {
				t.Error("an object shares memory with its record")
			}
		}
		if r.size() != int64(e.Size()) && e.Object == nil {
			t.Errorf("a record of size %d, an entry of size %d", r.size(), e.Size())
		}
	}
}

// TestKeysAreOrdered: the history of a resource is one range, whatever others
// are called.
func TestKeysAreOrdered(t *testing.T) {
	var keys [][]byte
	for _, r := range []schema.GroupResource{
		{Resource: "pods"}, {Resource: "podtemplates"}, {Group: "a", Resource: "b"}, {Group: "a", Resource: "b.c"}, {Group: "a.b", Resource: "c"},
	} {
		for _, rev := range []object.Revision{1, 2, 255, 256, 1 << 40} {
			keys = append(keys, appendRecordKey(nil, r, rev))
		}
	}
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, bytes.Compare)
	for i := 0; i < len(sorted); i += 5 { // the revisions of one resource
		at := slices.IndexFunc(keys, func(k []byte) bool { return bytes.Equal(k, sorted[i]) })
		if !slices.EqualFunc(sorted[i:i+5], keys[at:at+5], bytes.Equal) {
			t.Errorf("%q is not followed by its history", sorted[i])
		}
	}
}

func FuzzRecord(f *testing.F) {
	db := openDB(f)
	_, value := encoded(f, db, put(pods, "a", 7, "text"))
	f.Add(value)
	_, value = encoded(f, db, journal.Entry{Key: object.Key{Resource: pods, Name: "a"}, Prev: 7})
	f.Add(value)
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := parseRecord(value)
		if err != nil {
			return
		}
		if len(r.namespace)+len(r.name)+len(r.raw) > len(value) || r.previous < 0 {
			t.Fatalf("%+v", r)
		}
		r.resource = pods
		(&decoder{}).entry(&r) // must not panic
	})
}

// TestForeignStores: what the program does not know it does not touch.
func TestForeignStores(t *testing.T) {
	for _, test := range []struct {
		name       string
		key, value []byte
		want       string
	}{
		{"format", []byte(markFormat), encodeMark(9), "newer version"},
		{"mark", []byte(markCompacted), []byte("x"), "malformed mcompacted"},
		{"record version", appendRecordKey(nil, pods, 1), append([]byte{9}, make([]byte, 20)...), "newer version"},
		{"record", appendRecordKey(nil, pods, 1), []byte{1, 2, 3}, "malformed record"},
		{"record fields", appendRecordKey(nil, pods, 1), binary.AppendUvarint(make([]byte, 10), 1<<63), "record"},
		{"key", []byte("r/pods"), nil, "malformed key"},
		{"key without resource", append([]byte("rpods\x00"), make([]byte, 8)...), nil, "malformed key"},
		{"object", appendRecordKey(nil, pods, 1), append(append([]byte{1, 0}, make([]byte, 11)...), "{oops"...), "pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet}
			j, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.life.store.db.Set(test.key, test.value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j, err = Open(opts)
			if err == nil {
				defer j.Close()
				err = j.Recover(t.Context(), journaltest.NewTwin())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if errors.Is(err, journal.ErrLocked) {
				t.Error("the lock was kept")
			}
		})
	}
}
