package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	nodes   = schema.GroupResource{Resource: "nodes"}
	widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

	taken = time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.UTC)
)

func newObject(t testing.TB, key object.Key, revision object.Revision, data string) *object.Object {
	t.Helper()
	metadata := map[string]any{"name": key.Name, "uid": fmt.Sprint("uid-", revision), "labels": map[string]any{"a": "b"}}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	o, err := object.New(key, map[string]any{"metadata": metadata, "data": data}, uint64(revision)*7, taken.Add(time.Duration(revision)))
	if err != nil {
		t.Fatal(err)
	}
	o.Revision = revision
	return o
}

// some returns objects with all shapes of keys, without a time, and large ones.
func some(t testing.TB) []*object.Object {
	timeless := newObject(t, object.Key{Resource: nodes, Name: "b"}, 3, "")
	timeless.Written = time.Time{}
	return slices.Collect(Sorted([]*object.Object{
		newObject(t, object.Key{Resource: widgets, Namespace: "ns2", Name: "a"}, 9, "ä\u2028\"\\"),
		newObject(t, object.Key{Resource: widgets, Namespace: "ns", Name: "a"}, 8, "x"),
		newObject(t, object.Key{Resource: pods, Namespace: "ns", Name: "b"}, 2, strings.Repeat("long ", 2<<10)),
		newObject(t, object.Key{Resource: pods, Namespace: "ns", Name: "a"}, 9, ""),
		newObject(t, object.Key{Resource: nodes, Name: "a"}, 1, "x"),
		timeless,
	}))
}

func write(t testing.TB, h Header, objects ...*object.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, h, slices.Values(objects)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(file []byte) (Header, []*object.Object, error) {
	r, err := Open(bytes.NewReader(file))
	if err != nil {
		return Header{}, nil, err
	}
	var all []*object.Object
	for o, err := range r.Objects() {
		if err != nil {
			return r.Header(), all, err
		}
		all = append(all, o)
	}
	return r.Header(), all, nil
}

func sameObject(a, b *object.Object) bool {
	return a.Key == b.Key && a.Revision == b.Revision && a.Schema == b.Schema && a.Written.Equal(b.Written) &&
		bytes.Equal(a.Raw, b.Raw) && a.Meta.UID == b.Meta.UID && bytes.Equal(a.Stored().AppendTo(nil, 5), b.Stored().AppendTo(nil, 5))
}

func TestRoundTrip(t *testing.T) {
	large := newObject(t, object.Key{Resource: pods, Name: "large"}, 9, strings.Repeat("large ", 2<<20))
	for _, objects := range [][]*object.Object{nil, some(t)[:1], some(t), {large}} {
		h := Header{Revision: 9, Time: taken, Kubernetes: "v1.37.2+kapok", Salvaged: len(objects) == 1}
		file := write(t, h, objects...)
		if !bytes.Equal(file, write(t, h, objects...)) {
			t.Error("the same objects result in another file")
		}
		gotHeader, got, err := read(file)
		if err != nil || gotHeader != h || !slices.EqualFunc(got, objects, sameObject) {
			t.Errorf("%+v, %d objects, %v; want %+v, %d objects", gotHeader, len(got), err, h, len(objects))
		}
	}
}

// TestWalkAgain checks that a reader can iterate more than once, and stop early.
func TestWalkAgain(t *testing.T) {
	r, err := Open(bytes.NewReader(write(t, Header{Revision: 9}, some(t)...)))
	if err != nil {
		t.Fatal(err)
	}
	for o := range r.Objects() {
		if o.Key.Name != "a" || o.Key.Resource != nodes {
			t.Errorf("the first object is %s", o.Key)
		}
		break
	}
	n := 0
	for _, err := range r.Objects() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != len(some(t)) {
		t.Errorf("%d objects in the second walk", n)
	}
}

func TestWriteRefuses(t *testing.T) {
	key := func(r schema.GroupResource, ns, name string) object.Key {
		return object.Key{Resource: r, Namespace: ns, Name: name}
	}
	a := newObject(t, key(pods, "ns", "a"), 1, "")
	tests := []struct {
		name    string
		objects []*object.Object
		want    string
	}{
		{"order of names", []*object.Object{newObject(t, key(pods, "ns", "b"), 2, ""), a}, "pods/ns/a comes after pods/ns/b: out of order"},
		{"order of resources", []*object.Object{a, newObject(t, key(nodes, "", "b"), 2, "")}, "out of order"},
		{"twice", []*object.Object{a, a}, "out of order"},
		{"one revision", []*object.Object{a, newObject(t, key(pods, "ns", "b"), 1, "")}, "two objects of pods have revision 1"},
		{"one revision, another resource last", []*object.Object{a, newObject(t, key(pods, "ns", "b"), 1, ""), newObject(t, key(widgets, "", "b"), 2, "")}, "two objects of pods have revision 1"},
		{"no revision", []*object.Object{newObject(t, key(pods, "ns", "a"), 0, "")}, "has revision 0, but the store is at 5"},
		{"too new", []*object.Object{newObject(t, key(pods, "ns", "a"), 6, "")}, "has revision 6, but the store is at 5"},
		{"no name", []*object.Object{newObject(t, key(pods, "ns", ""), 1, "")}, "is not the key of an object"},
		{"no resource", []*object.Object{newObject(t, key(schema.GroupResource{}, "ns", "a"), 1, "")}, "is not the key of an object"},
		{"slash", []*object.Object{newObject(t, key(pods, "ns", "a/b"), 1, "")}, "is not the key of an object"},
		{"zero byte", []*object.Object{newObject(t, key(pods, "n\x00s", "a"), 1, "")}, "is not the key of an object"},
		{"too large", []*object.Object{newObject(t, key(pods, "ns", "a"), 1, strings.Repeat("x", maxObject))}, "the maximum is"},
	}
	for _, test := range tests {
		var b bytes.Buffer
		err := Write(&b, Header{Revision: 5}, slices.Values(test.objects))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
		if _, _, err := read(b.Bytes()); err == nil {
			t.Errorf("%s: the bytes that were written before the error can be read", test.name)
		}
	}
}

// full is a writer for a limited number of bytes.
type full int

func (f *full) Write(p []byte) (int, error) {
	if len(p) > int(*f) {
		return 0, errors.New("no space left")
	}
	*f -= full(len(p))
	return len(p), nil
}

func TestWriteFails(t *testing.T) {
	objects := some(t)
	size := len(write(t, Header{Revision: 9}, objects...))
	for room := range size {
		f := full(room)
		if err := Write(&f, Header{Revision: 9}, slices.Values(objects)); err == nil {
			t.Fatalf("Write succeeded with room for %d of %d bytes", room, size)
		}
	}
}

// TestDamage checks that no file is accepted that is truncated or altered, wherever that is.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	file := write(t, Header{Revision: 9, Time: taken}, some(t)...)
	for n := range file {
		_, got, err := read(file[:n])
		switch {
		case n < len(magic) && errors.Is(err, ErrForeign): // not enough to identify a snapshot
		case !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrDamaged) || len(got) > 0:
			t.Fatalf("the first %d of %d bytes: %v", n, len(file), err)
		}
	}
	for i := range file {
		flipped := bytes.Clone(file)
		flipped[i] ^= 1 << r.IntN(8)
		if _, got, err := read(flipped); err == nil || len(got) > 0 {
			t.Fatalf("byte %d of %d flipped: %v after %d objects", i, len(file), err, len(got))
		}
	}
	for range 200 {
		at, n := r.IntN(len(file)), 1+r.IntN(100)
		if _, got, err := read(slices.Concat(file[:at], file[min(at+n, len(file)):])); err == nil || len(got) > 0 {
			t.Fatalf("%d bytes are missing at %d: %v", n, at, err)
		}
	}
	if _, _, err := read(append(bytes.Clone(file), '\n')); err == nil {
		t.Error("an additional byte is not detected")
	}
}

// forge returns a file with a valid checksum.
func forge(start string, records []byte) []byte {
	z, _ := zstd.NewWriter(nil, zstd.WithWindowSize(windowSize))
	return seal(append([]byte(start), z.EncodeAll(records, nil)...))
}

func seal(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sumPrefix+hex.EncodeToString(sum[:])+"\n"...)
}

const start = "kapok snapshot v1\n{\"revision\":9}\n"

func TestRefusals(t *testing.T) {
	object := appendObject(nil, newObject(t, object.Key{Resource: pods, Namespace: "ns", Name: "a"}, 3, ""))
	raw := newObject(t, some(t)[2].Key, 3, "").Raw
	object = append(object, raw...)
	end := binary.AppendUvarint([]byte{recordEnd, 1}, uint64(len(raw)))
	if _, got, err := read(forge(start, slices.Concat(object, end))); err != nil || len(got) != 1 {
		t.Fatalf("the valid forged file: %v", err)
	}
	huge := binary.AppendUvarint(bytes.Clone(object[:len(object)-len(raw)-len(binary.AppendUvarint(nil, uint64(len(raw))))]), maxObject+1)
	tests := []struct {
		name string
		file []byte
		want error
		text string
	}{
		{"empty", nil, ErrTruncated, ""},
		{"text", []byte("apiVersion: v1\nkind: List\nitems: []\n"), ErrForeign, ""},
		{"etcd", make([]byte, 64<<10), ErrForeign, ""},
		{"no number", []byte("kapok snapshot v1beta1\n"), ErrForeign, ""},
		{"newer", []byte("kapok snapshot v2\nwhatever that may be"), ErrNewer, "v2, the newest supported one is v1"},
		{"no header", []byte("kapok snapshot v1\n"), ErrTruncated, ""},
		{"endless header", []byte("kapok snapshot v1\n" + strings.Repeat("x", 64<<10)), ErrDamaged, "header has no end"},
		{"bad header", forge("kapok snapshot v1\n{\"revision\":\"x\"}\n", end), ErrDamaged, "header"},
		{"negative", forge("kapok snapshot v1\n{\"revision\":-1}\n", end), ErrDamaged, "revision -1"},
		{"no records", seal([]byte(start)), ErrDamaged, "unexpected EOF"},
		{"no compression", seal(append([]byte(start), object...)), ErrDamaged, "after 0 objects"},
		{"no end", forge(start, object), ErrDamaged, "after 1 objects: unexpected EOF"},
		{"half", forge(start, object[:len(object)-1]), ErrDamaged, "unexpected EOF"},
		{"too few", forge(start, slices.Concat(object, binary.AppendUvarint([]byte{recordEnd, 2}, uint64(len(raw))))), ErrDamaged, errEnd.Error()},
		{"other bytes", forge(start, slices.Concat(object, []byte{recordEnd, 1, 1})), ErrDamaged, errEnd.Error()},
		{"more", forge(start, slices.Concat(object, end, end)), ErrDamaged, "unexpected data after its end"},
		{"kind", forge(start, []byte{7}), ErrDamaged, "unknown record kind 7"},
		{"twice", forge(start, slices.Concat(object, object, end)), ErrDamaged, "out of order"},
		{"too new", forge("kapok snapshot v1\n{\"revision\":2}\n", slices.Concat(object, end)), ErrDamaged, "has revision 3, but the store is at 2"},
		{"no JSON", forge(start, slices.Concat(object[:len(object)-1], []byte("]"), end)), ErrDamaged, "decode pods/ns/a"},
		{"huge", forge(start, huge), ErrDamaged, "the maximum is"},
	}
	for _, test := range tests {
		_, _, err := read(test.file)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.want, test.text)
		}
	}
}

// brittle is a file that cannot be read from some offset on.
type brittle struct {
	*bytes.Reader
	until int64
}

var errBrittle = errors.New("input/output error")

func (b *brittle) Read(p []byte) (int, error) {
	at, _ := b.Reader.Seek(0, io.SeekCurrent)
	if at >= b.until {
		return 0, errBrittle
	}
	return b.Reader.Read(p[:min(len(p), int(b.until-at))])
}

// TestReadFails checks that a read error of the file is not reported as damage.
func TestReadFails(t *testing.T) {
	file := write(t, Header{Revision: 9}, some(t)...)
	for until := range int64(len(file)) {
		_, err := Open(&brittle{bytes.NewReader(file), until})
		if !errors.Is(err, errBrittle) {
			t.Fatalf("unreadable from byte %d: %v", until, err)
		}
	}
}

// FuzzOpen reads files with a valid checksum and any other content. Objects that can be read can be
// written, and read again.
func FuzzOpen(f *testing.F) {
	small := slices.DeleteFunc(some(f), func(o *object.Object) bool { return len(o.Raw) > 1000 })
	for _, file := range [][]byte{write(f, Header{Revision: 9}, small...), write(f, Header{}), forge("kapok snapshot v2\n", nil), seal(nil)} {
		f.Add(file[:max(0, len(file)-sumLength)])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		h, got, err := read(seal(file))
		if err != nil {
			return
		}
		if h2, again, err := read(write(t, h, got...)); err != nil || h2.Revision != h.Revision || !slices.EqualFunc(got, again, sameObject) {
			t.Fatalf("%+v and %d objects are read back as %+v and %d: %v", h, len(got), h2, len(again), err)
		}
	})
}

// FuzzRecords reads uncompressed records.
func FuzzRecords(f *testing.F) {
	small := slices.DeleteFunc(some(f), func(o *object.Object) bool { return len(o.Raw) > 1000 })
	for n := range small {
		f.Add(records(f, small[:n]))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := decoder{in: bufio.NewReader(bytes.NewReader(in)), order: order{revision: 9}}
		var all []*object.Object
		for {
			o, err := d.next()
			if err != nil {
				return
			}
			if o == nil {
				break
			}
			all = append(all, o)
		}
		// Objects that can be read can be written, and read again.
		_, again, err := read(forge(start, records(t, all)))
		if err != nil || !slices.EqualFunc(all, again, sameObject) {
			t.Fatalf("%d objects are read back as %d: %v", len(all), len(again), err)
		}
	})
}

func records(t testing.TB, objects []*object.Object) []byte {
	var b bytes.Buffer
	w := writer{z: &b, order: order{revision: 9}}
	if err := w.all(slices.Values(objects)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
