package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Canonical documents: Parse keeps them as they are.
var canonical = []string{
	`{"metadata":{}}`,
	`{"metadata":{"uid":"u"}}`,
	`{"a":{},"b":[],"metadata":{"creationTimestamp":"2025-03-04T05:06:07Z","deletionTimestamp":"2025-03-05T05:06:07Z","finalizers":["a","b"],"labels":{"a":"b","c":"d"},"name":"n","ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":false,"extra":[1],"kind":"K","name":"o","uid":"u1"}],"uid":"u"},"z":null}`,
	`{"metadata":{"labels":{"\"":"\\","a\n":"\u0001\u001f"},"u\"":"x","uid":"\t"}}`,
	`{"metadata":{"finalizers":[],"labels":{},"ownerReferences":[],"uid":"u"}}`,
	`{"metadata":{"f":{"k:{\"name\":\"web\"}":{}},"uid":"u"}}`,
	`{"a":[0,-1,1.5,-0.25,1e-7,1e+21,9223372036854775807,-9223372036854775808,18446744073709552000,true,false,null],"metadata":{"uid":"ü漢"}}`,
	// Fields with the wrong type.
	`{"metadata":{"creationTimestamp":3,"deletionTimestamp":"never","finalizers":[1,"x"],"labels":{"a":1,"b":"c"},"ownerReferences":[3,{"controller":"x","name":"o","uid":3}],"uid":{}}}`,
	`{"metadata":{"labels":null,"ownerReferences":{},"uid":null}}`,
}

// Foreign documents: Parse decodes or rejects them.
var foreign = []string{
	``, `null`, `[]`, `{}`, `{"metadata":3}`, `{"metadata":{"name":"n"}}`, `{"metadata":{"uid":"u"}`, `{"metadata":{"uid":"u"}}x`,
	` {"metadata":{"uid":"u"}}`, `{"metadata": {"uid":"u"}}`, `{"metadata":{"uid":"u"}}` + "\n", `{"a": [1, 2],"metadata":{"uid":"u"}}`,
	`{"metadata":{"resourceVersion":"7","uid":"u"}}`, `{"metadata":{"selfLink":"/x","uid":"u"}}`, `{"metadata":{"uid":"u"},"a":1}`,
	`{"metadata":{"uid":"u"},"metadata":{"uid":"v"}}`, `{"a":1,"a":2,"metadata":{"uid":"u"}}`, `{"a":01,"metadata":{"uid":"u"}}`,
	`{"a":-0,"metadata":{"uid":"u"}}`, `{"a":1.0,"metadata":{"uid":"u"}}`, `{"a":1e3,"metadata":{"uid":"u"}}`, `{"a":1e999,"metadata":{"uid":"u"}}`,
	`{"a":"\u0041\/\b\u003c","metadata":{"uid":"u"}}`, `{"a":"\ud800","metadata":{"uid":"u"}}`, "{\"a\":\"\xff\",\"metadata\":{\"uid\":\"u\"}}",
	"{\"a\":\"\x01\",\"metadata\":{\"uid\":\"u\"}}", `{"a":[1,],"metadata":{"uid":"u"}}`, `{"a":{"b"},"metadata":{"uid":"u"}}`, `{"a":tru,"metadata":{"uid":"u"}}`,
	`{"a":"\u00","metadata":{"uid":"u"}}`, `{"a":"\`, `{"a":.5,"metadata":{"uid":"u"}}`, `{"a":--1,"metadata":{"uid":"u"}}`, `{"spec":[},"metadata":{"uid":"u"}}`,
	`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"metadata":{"uid":"u"}}`,
	`{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"metadata":{"uid":"u"}}`,
}

func TestParseTakesCanonicalBytesAsTheyAre(t *testing.T) {
	for _, raw := range canonical {
		o, err := Parse(benchKey, []byte(raw), 1, time.Time{})
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		s := scanner{raw: []byte(raw)}
		if _, _, ok := s.document(); !ok && raw != canonical[0] {
			t.Errorf("%s is not taken for canonical", raw)
		}
		if string(o.Raw) != raw {
			t.Errorf("%s\nbecame %s", raw, o.Raw)
		}
		sameAsDecoded(t, []byte(raw))
	}
}

func TestParseOfForeignBytes(t *testing.T) {
	for _, raw := range foreign {
		s := scanner{raw: []byte(raw)}
		if _, _, ok := s.document(); ok {
			t.Errorf("%.100s is taken for canonical", raw)
		}
		sameAsDecoded(t, []byte(raw))
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range append(canonical, foreign...) {
		f.Add([]byte(raw))
	}
	f.Fuzz(sameAsDecoded)
}

// sameAsDecoded checks that Parse returns what decoding and encoding the bytes returns, that the
// result is stable, and that the splice is right.
func sameAsDecoded(t *testing.T, raw []byte) {
	t.Helper()
	given := bytes.Clone(raw)
	got, err := Parse(benchKey, raw, 7, time.Unix(1, 2))
	if !bytes.Equal(raw, given) {
		t.Fatalf("Parse changed %q", given)
	}
	want, wantErr := reencode(benchKey, raw, 7, time.Unix(1, 2))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: error %v, decoding says %v", raw, err, wantErr)
	}
	if err != nil {
		return
	}
	sameObject(t, got, want)
	tree, err := got.Tree()
	if err != nil {
		t.Fatalf("%q: %v", got.Raw, err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	decoded := Object{Key: got.Key, Raw: got.Raw, Written: got.Written, Schema: got.Schema, splice: got.splice, Meta: metaOf(metadata)}
	sameObject(t, got, &decoded)
	sameLabels(t, got.Meta.Labels, metadata["labels"])
	again, err := Parse(benchKey, got.Raw, 7, time.Unix(1, 2))
	if err != nil {
		t.Fatalf("%q cannot be parsed again: %v", got.Raw, err)
	}
	sameObject(t, again, got)
	checkSplice(t, got)
}

// sameLabels compares Labels with the labels in a tree.
func sameLabels(t *testing.T, l Labels, tree any) {
	t.Helper()
	want, _ := tree.(map[string]any)
	for name, v := range want {
		text, _ := v.(string)
		if value, ok := l.Lookup(name); !ok || value != text || !l.Has(name) || l.Get(name) != text {
			t.Fatalf("%s: label %q is %q, %v", l, name, value, ok)
		}
		for _, other := range []string{name + "x", name[:len(name)/2]} {
			if _, there := want[other]; l.Has(other) != there {
				t.Fatalf("%s: label %q: %v", l, other, !there)
			}
		}
	}
	n := 0
	for name, value := range l.All() {
		if text, _ := want[name].(string); text != value {
			t.Fatalf("%s: walk has %q as %q", l, name, value)
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("%s: walk has %d of %d", l, n, len(want))
	}
}

func sameObject(t *testing.T, got, want *Object) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Object{}, "forms"), cmp.AllowUnexported(Object{}, Meta{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s:\n%s", got.Raw, diff)
	}
}

// checkSplice checks that a served form is the object with its resourceVersion.
func checkSplice(t *testing.T, o *Object) {
	t.Helper()
	served := o.Stored().AppendTo(nil, 12345)
	if n := o.Stored().Len(); n < len(served) {
		t.Fatalf("Len says %d, form has %d bytes", n, len(served))
	}
	tree, err := DecodeTree(served)
	if err != nil {
		t.Fatalf("served form %s: %v", served, err)
	}
	metadata := tree["metadata"].(map[string]any)
	if metadata["resourceVersion"] != "12345" {
		t.Fatalf("served form %s", served)
	}
	delete(metadata, "resourceVersion")
	stored, err := o.Tree()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tree, stored) {
		t.Fatalf("served %v, stored %v", tree, stored)
	}
}

// TestEncode compares with encoding/json on random trees.
func TestEncode(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		tree := map[string]any{"spec": randomValue(r, 0), "metadata": map[string]any{
			"uid": randomString(r), "labels": map[string]any{randomString(r): randomString(r)}, randomString(r): randomValue(r, 3),
		}}
		form, err := Encode(tree)
		if err != nil {
			t.Fatalf("%v: %v", tree, err)
		}
		want, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		// encoding/json escapes more characters; the decoded values are equal.
		var a, b any
		if err := json.Unmarshal(form.Bytes, &a); err != nil {
			t.Fatalf("%s: %v", form.Bytes, err)
		}
		if err := json.Unmarshal(want, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\nencoding/json: %s", form.Bytes, want)
		}
		sameAsDecoded(t, form.Bytes)
		s := scanner{raw: form.Bytes}
		if _, _, ok := s.document(); !ok {
			t.Fatalf("what Encode wrote is not taken for canonical: %s", form.Bytes)
		}
	}
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(12); {
	case n < 2 && depth < 4:
		m := map[string]any{}
		for range r.IntN(5) {
			m[randomString(r)] = randomValue(r, depth+1)
		}
		return m
	case n < 4 && depth < 4:
		l := make([]any, r.IntN(4))
		for i := range l {
			l[i] = randomValue(r, depth+1)
		}
		return l
	case n == 4:
		return nil
	case n == 5:
		return r.IntN(2) == 0
	case n == 6:
		return int64(r.Uint64())
	case n == 7:
		return math.Ldexp(r.NormFloat64(), r.IntN(200)-100)
	case n == 11:
		return math.Copysign(0, r.NormFloat64())
	case n == 8:
		return int64(r.IntN(100))
	default:
		return randomString(r)
	}
}

func randomString(r *rand.Rand) string {
	runes := []rune("abcdefghijklmnopqrstuvwxyz\"\\\n\r\t\b\x00\x1f\x7f<>&/üß漢\u2028\ufffd😀")
	s := make([]rune, r.IntN(20))
	for i := range s {
		s[i] = runes[r.IntN(len(runes))]
	}
	return string(s)
}

func TestEncodeRefuses(t *testing.T) {
	deep := any("x")
	for range MaxDepth + 10 {
		deep = []any{deep}
	}
	uid := map[string]any{"uid": "u"}
	for name, tree := range map[string]map[string]any{
		"no metadata": {"a": "b"},
		"no uid":      {"metadata": map[string]any{"name": "n"}},
		"NaN":         {"metadata": uid, "a": math.NaN()},
		"infinity":    {"metadata": uid, "a": math.Inf(-1)},
		"depth":       {"metadata": uid, "a": deep},
		"no JSON":     {"metadata": uid, "a": struct{}{}},
	} {
		if form, err := Encode(tree); err == nil {
			t.Errorf("%s: encoded as %.80s", name, form.Bytes)
		}
	}
}

func TestEncodeInvalidUTF8(t *testing.T) {
	form, err := Encode(map[string]any{"metadata": map[string]any{"uid": "a\xffb"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"uid":"a` + "\uFFFD" + `b"}}`; string(form.Bytes) != want {
		t.Errorf("%s, want %s", form.Bytes, want)
	}
	sameAsDecoded(t, form.Bytes)
}

func FuzzEncode(f *testing.F) {
	f.Add("a", "b", 1.5, int64(3))
	f.Add("\xff", "\u2028\"", math.Copysign(0, -1), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, k, v string, x float64, n int64) {
		tree := map[string]any{"metadata": map[string]any{"uid": v, k + "x": v}, k: []any{x, n, v, map[string]any{v: nil}}}
		form, err := Encode(tree)
		if err != nil {
			return
		}
		sameAsDecoded(t, form.Bytes)
		o, err := New(benchKey, tree, 0, time.Time{})
		if err != nil || !bytes.Equal(o.Raw, form.Bytes) {
			t.Fatalf("New: %s, error %v, Encode: %s", o.Raw, err, form.Bytes)
		}
	})
}

func TestNewLeavesTheTree(t *testing.T) {
	tree := pod(1)
	metadata := tree["metadata"].(map[string]any)
	metadata["resourceVersion"], metadata["selfLink"] = "9", "/x"
	before := fmt.Sprint(tree)
	o, err := New(benchKey, tree, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(tree); after != before {
		t.Errorf("tree became %s", after)
	}
	if bytes.Contains(o.Raw, []byte("resourceVersion")) || bytes.Contains(o.Raw, []byte("selfLink")) {
		t.Errorf("stored %s", o.Raw)
	}
	checkSplice(t, o)
	if !o.Meta.Owners[0].Controller || o.Meta.Labels.Get("app") != "web" || o.Meta.Created.Year() != 2025 || o.Meta.Deleting() {
		t.Errorf("metadata %+v", o.Meta)
	}
}

func TestForm(t *testing.T) {
	o, err := New(benchKey, pod(1), 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for range 3 {
		for version := range 4 {
			f, err := o.Form(FormKey{Version: fmt.Sprint(version)}, func(*Object) (Form, error) {
				calls++
				return Form{Bytes: []byte(fmt.Sprint(version)), Splice: -1}, nil
			})
			if err != nil || string(f.AppendTo(nil, 3)) != fmt.Sprint(version) {
				t.Errorf("form of version %d is %s, error %v", version, f.Bytes, err)
			}
		}
	}
	if calls != 4 {
		t.Errorf("4 forms were made in %d calls", calls)
	}
	failure := errors.New("no")
	if _, err := o.Form(FormKey{Version: "x"}, func(*Object) (Form, error) { return Form{}, failure }); err != failure {
		t.Errorf("error %v", err)
	}
}
