package jsonpatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object/jsonpatch"
	"github.com/kapok-dev/kapok/test/seeds"

	library "gopkg.in/evanphx/json-patch.v4"
)

func TestMain(m *testing.M) {
	library.AccumulatedCopySizeLimit = jsonpatch.MaxCopy // as kube-apiserver sets it
	m.Run()
}

// TestApply has cases that the random patches below rarely reach, with the expected result of each.
// The library is the reference for all of them except those that make it panic.
func TestApply(t *testing.T) {
	const doc = `{"a":{"b":1,"n":null,"s":"x<y"},"l":[1,[2],{"k":"v"}],"~/":{"~1":0}}`
	for _, test := range []struct{ name, patch, want string }{
		{"nothing", `[]`, `{"a":{"b":1,"n":null,"s":"x\u003cy"},"l":[1,[2],{"k":"v"}],"~/":{"~1":0}}`},
		{"escaped pointer", `[{"op":"test","path":"/~0~1/~01","value":0}]`, ""},
		{"no slash in front", `[{"op":"remove","path":"ignored/l"},{"op":"remove","path":"/~0~1"}]`, `{"a":{"b":1,"n":null,"s":"x\u003cy"}}`},
		{"path without slash", `[{"op":"add","path":"a","value":1}]`, `add operation does not apply: doc is missing path: "a": missing value`},
		{"end of list", `[{"op":"add","path":"/l/-","value":9},{"op":"add","path":"/l/1/-","value":8},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"}]`, `{"l":[1,[2,8],{"k":"v"},9]}`},
		{"negative indices", `[{"op":"add","path":"/l/-1","value":9},{"op":"remove","path":"/l/-2"},{"op":"replace","path":"/l/-1","value":7},{"op":"test","path":"/l/-3","value":1},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"}]`, `{"l":[1,[2],7]}`},
		{"index below", `[{"op":"add","path":"/l/-5","value":9}]`, `error in add for path: '/l/-5': Unable to access invalid index: -5: invalid index referenced`},
		{"index beyond", `[{"op":"add","path":"/l/4","value":9}]`, `error in add for path: '/l/4': Unable to access invalid index: 4: invalid index referenced`},
		{"invalid index", `[{"op":"add","path":"/l/one","value":9}]`, `error in add for path: '/l/one': value was not a proper array index: 'one': strconv.Atoi: parsing "one": invalid syntax`},
		{"integer and float", `[{"op":"test","path":"/a/b","value":1.0}]`, `testing value /a/b failed: test failed`},
		{"strings by their text", `[{"op":"test","path":"/a/s","value":"x\u003cy"}]`, `testing value /a/s failed: test failed`},
		{"null of the document", `[{"op":"test","path":"/a/n","value":null},{"op":"test","path":"/a/absent","value":null},{"op":"test","path":"/a/n"}]`, ""},
		{"null that is set", `[{"op":"add","path":"/a/o","value":null},{"op":"test","path":"/a/o","value":null},{"op":"test","path":"/a/o"}]`, `testing value /a/o failed: test failed`},
		{"null as a parent", `[{"op":"add","path":"/a/n/x","value":1}]`, `add operation does not apply: doc is missing path: "/a/n/x": missing value`},
		{"scalar as a parent", `[{"op":"add","path":"/a/b/x","value":1}]`, `add operation does not apply: doc is missing path: "/a/b/x": missing value`},
		{"add without a value", `[{"op":"add","path":"/z"},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"},{"op":"remove","path":"/l"}]`, `{"z":null}`},
		{"replace what is absent", `[{"op":"replace","path":"","value":{}},{"op":"replace","path":"/z","value":1}]`, `{"z":1}`},
		{"root becomes a list", `[{"op":"replace","path":"","value":[1]},{"op":"add","path":"/-","value":2}]`, `[1,2]`},
		{"root becomes a text", `[{"op":"replace","path":"","value":"x"}]`, `replace operation value must be object or array: %!w(<nil>)`},
		{"root becomes null", `[{"op":"replace","path":"","value":null}]`, `replace operation value must be object or array: %!w(<nil>)`},
		{"root is added", `[{"op":"add","path":"","value":{}}]`, `add operation does not apply: doc is missing path: "": missing value`},
		{"move into itself", `[{"op":"move","from":"/a","path":"/a/x"}]`, `move operation does not apply: doc is missing destination path: /a/x: missing value`},
		{"move along a list", `[{"op":"move","from":"/l/0","path":"/l/2"},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"}]`, `{"l":[[2],{"k":"v"},1]}`},
		{"copy into itself", `[{"op":"copy","from":"/l","path":"/l/0"},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"}]`, `{"l":[[1,[2],{"k":"v"}],1,[2],{"k":"v"}]}`},
		{"copies stay apart", `[{"op":"copy","from":"/l/1","path":"/l/0"},{"op":"add","path":"/l/0/-","value":3},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"}]`, `{"l":[[2,3],1,[2],{"k":"v"}]}`},
		{"copy of what is absent", `[{"op":"replace","path":"","value":{}},{"op":"copy","from":"/x","path":"/y"}]`, `{"y":null}`},
		{"repeated keys of the patch", `[{"op":"add","path":"/z","path":"/y","value":{"k":1,"k":2}},{"op":"remove","path":"/a"},{"op":"remove","path":"/~0~1"},{"op":"remove","path":"/l"}]`, `{"y":{"k":1,"k":2}}`},
		{"repeated keys that are looked into", `[{"op":"replace","path":"","value":{"y":{"k":1,"k":2}}},{"op":"add","path":"/y/x","value":1}]`, `{"y":{"k":2,"x":1}}`},
		{"no operation", `[null]`, `Unexpected kind: unknown`},
		{"unknown operation", `[{"op":"shuffle"}]`, `Unexpected kind: shuffle`},
		{"no path", `[{"op":"remove"}]`, `remove operation failed to decode path: missing value`},
		{"path of another type", `[{"op":"test","path":1}]`, `test operation failed to decode path: json: cannot unmarshal number into Go value of type string`},
		{"no from", `[{"op":"copy","path":"/x"}]`, `copy operation failed to decode from: operation, missing from field: missing value`},
		{"doubling", `[{"op":"replace","path":"","value":{"a":{"t":"` + strings.Repeat("x", 1<<16) + `"}}}` + strings.Repeat(`,{"op":"copy","from":"/a","path":"/a/b"}`, 30) + `]`, `Unable to complete the copy, the accumulated size increase of copy is 3605145, exceeding the limit 3145728`},

		{"library panics: list with null", `[{"op":"replace","path":"","value":{"l":[1,null]}},{"op":"test","path":"/l","value":[1,null]}]`, `{"l":[1,null]}`},
		{"library panics: list with another", `[{"op":"replace","path":"","value":{"l":[null]}},{"op":"test","path":"/l","value":[1]}]`, `testing value /l failed: test failed`},
		{"library panics: root without value", `[{"op":"replace","path":""}]`, `replace operation value must be object or array: %!w(<nil>)`},
		{"library panics: test of the root", `[{"op":"test","path":""}]`, `testing value  failed: test failed`},
		{"library panics: into a null", `[{"op":"add","path":"/n","value":null},{"op":"copy","from":"/n","path":"/m"},{"op":"add","path":"/m/x","value":1}]`, `error in add for path: '/m/x': Unable to add key to null: x: missing value`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := outcome(apply(test.patch, doc))
			if want, panicked := judged(test.patch, doc); panicked != strings.HasPrefix(test.name, "library panics") || !panicked && got != want {
				t.Errorf("got  %s\nthe library has %s, panic %v", got, want, panicked)
			}
			if test.want != "" && got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestDecode compares the errors for input that cannot be decoded, which clients see.
func TestDecode(t *testing.T) {
	for _, patch := range []string{``, `null`, `{}`, `[1]`, `[{"op":1}]`, `[{}`, `[]x`, strings.Repeat("[", 10001) + strings.Repeat("]", 10001)} {
		_, want := library.DecodePatch([]byte(patch))
		if _, err := jsonpatch.Decode([]byte(patch)); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%.20s: got %v, want %v", patch, err, want)
		}
	}
}

// TestApplyLikeTheLibrary compares with the library on random documents and patches.
func TestApplyLikeTheLibrary(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	panics, applied := 0, 0
	const rounds = 20_000
	for range rounds {
		doc, patch := randomObject(r, 4), randomPatch(r)
		want, panicked := judged(patch, doc)
		got := outcome(apply(patch, doc))
		switch {
		case panicked:
			panics++
		case got != want:
			t.Fatalf("document %s\npatch %s\ngot  %s\nwant %s", doc, patch, got, want)
		case strings.HasPrefix(got, "{") || strings.HasPrefix(got, "["):
			applied++
		}
	}
	if applied < rounds/20 || panics > rounds/10 {
		t.Errorf("of %d patches %d were applied, and %d made the library panic", rounds, applied, panics)
	}
}

// FuzzApply compares with the library on any bytes.
func FuzzApply(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomPatch(r), randomObject(r, 4))
	}
	f.Fuzz(func(t *testing.T, patch, doc string) {
		if !json.Valid([]byte(doc)) || !strings.HasPrefix(doc, "{") {
			t.Skip("the server has only objects")
		}
		want, panicked := judged(patch, doc)
		if got := outcome(apply(patch, doc)); !panicked && got != want && !strings.Contains(want, "exceeded max depth") {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestLongLists compares operations on a list of several blocks with the library.
func TestLongLists(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	doc := `{"l":[0` + strings.Repeat(",0", 3000) + `]}`
	for _, adds := range []int{1, 5, 9} { // of 10 operations: the list shrinks, stays and grows
		var ops []string
		for i := range 3000 {
			path := fmt.Sprintf("/l/%d", r.IntN(100+i/10))
			switch {
			case r.IntN(10) >= adds:
				ops = append(ops, fmt.Sprintf(`{"op":"remove","path":%q}`, path))
			case r.IntN(2) == 0:
				ops = append(ops, fmt.Sprintf(`{"op":"add","path":"/l/-","value":%d}`, i))
			default:
				ops = append(ops, fmt.Sprintf(`{"op":"add","path":%q,"value":%d}`, path, i))
			}
		}
		patch := "[" + strings.Join(ops, ",") + "]"
		want, _ := judged(patch, doc)
		if got := outcome(apply(patch, doc)); got != want {
			t.Errorf("%d adds of 10: got  %.100s\nwant %.100s", adds, got, want)
		}
	}
}

// TestLongListsAreEqual tests lists whose items are the same and whose blocks are not.
func TestLongListsAreEqual(t *testing.T) {
	const length = 5000
	items := func(from int) string {
		var all []string
		for i := from; i < length; i++ {
			all = append(all, fmt.Sprint(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	var ops []string
	for i := range length / 2 { // the front of the list comes item by item, so that blocks are divided
		ops = append(ops, fmt.Sprintf(`{"op":"add","path":"/l/0","value":%d}`, length/2-1-i))
	}
	doc := `{"l":` + items(length/2) + `}`
	for _, test := range []struct{ want, fails string }{
		{items(0), ""},
		{strings.Replace(items(0), "4999", "5000", 1), "test failed"},
		{strings.Replace(items(0), ",1024,", ",1025,", 1), "test failed"},
		{items(1), "test failed"},
	} {
		patch := "[" + strings.Join(append(ops, `{"op":"test","path":"/l","value":`+test.want+`}`), ",") + "]"
		if _, err := apply(patch, doc); (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%.40s: %v, want %q", test.want, err, test.fails)
		}
	}
}

// BenchmarkTest compares with a list of many items.
func BenchmarkTest(b *testing.B) {
	for _, length := range []int{100_000, 1_400_000} {
		b.Run(fmt.Sprintf("list=%d", length), func(b *testing.B) {
			list := "[1" + strings.Repeat(",1", length-1) + "]"
			patch, err := jsonpatch.Decode([]byte(`[{"op":"test","path":"/l","value":` + list + `}]`))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := patch.Apply(b.Context(), []byte(`{"l":`+list+`}`), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCostIsLinear counts the bytes that patches allocate whose cost was once quadratic in their
// length.
func TestCostIsLinear(t *testing.T) {
	list := func(n int) string { return `{"l":[0` + strings.Repeat(",0", n) + `]}` }
	many := func(n int, op string) string { return "[" + strings.Repeat(op+",", n-1) + op + "]" }
	for _, test := range []struct {
		name       string
		patch, doc func(n int) string
	}{
		{"adds to the front", func(n int) string { return many(n, `{"op":"add","path":"/l/0","value":1}`) }, list},
		{"adds to the end", func(n int) string { return many(n, `{"op":"add","path":"/l/-","value":1}`) }, list},
		{"removals from the front", func(n int) string { return many(n, `{"op":"remove","path":"/l/0"}`) }, list},
		{"moves along a list", func(n int) string { return many(n, `{"op":"move","from":"/l/0","path":"/l/-"}`) }, list},
		{"copies of small items", func(n int) string { return many(n, `{"op":"copy","from":"/l/0","path":"/l/0"}`) }, list},
		{
			"tests of a long text", func(n int) string {
				return many(n, `{"op":"test","path":"/t","value":{}},{"op":"test","path":"/t","value":"x"}`)
			},
			func(n int) string { return `{"t":"` + strings.Repeat("x", 10*n) + `"}` },
		},
		{
			"a path into the deep", func(n int) string { return `[{"op":"add","path":"` + strings.Repeat("/0", n) + `/0","value":1}]` },
			func(n int) string { return `{"0":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			allocated := func(n int) uint64 {
				patch, err := jsonpatch.Decode([]byte(test.patch(n)))
				if err != nil {
					t.Fatal(err)
				}
				doc := []byte(test.doc(n))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _ = patch.Apply(t.Context(), doc, nil)
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			if small, large := allocated(1000), allocated(8000); large > 12*small {
				t.Errorf("1,000 take %d bytes, 8,000 take %d", small, large)
			}
		})
	}
}

// TestApplyEndsWithItsContext ends the context after three operations.
func TestApplyEndsWithItsContext(t *testing.T) {
	patch, err := jsonpatch.Decode([]byte(`[` + strings.Repeat(`{"op":"add","path":"/a","value":1},`, 9) + `{"op":"steal"}]`))
	if err != nil {
		t.Fatal(err)
	}
	ctx := &counting{Context: t.Context(), left: 3}
	if _, err := patch.Apply(ctx, []byte(`{}`), nil); !errors.Is(err, context.Canceled) || ctx.left != -1 {
		t.Errorf("got %v, with %d questions left", err, ctx.left)
	}
}

// TestCopiesAreReported rejects the third copy.
func TestCopiesAreReported(t *testing.T) {
	patch, err := jsonpatch.Decode([]byte(`[{"op":"add","path":"/b","value":[1, 2]},{"op":"copy","from":"/b","path":"/c"},{"op":"copy","from":"/a","path":"/b/0"},{"op":"copy","from":"/b","path":"/d"}]`))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	var copies []string
	_, err = patch.Apply(t.Context(), []byte(`{"a":{"x":"y"}}`), func(data []byte) error {
		if copies = append(copies, string(data)); len(copies) == 3 {
			return refused
		}
		return nil
	})
	if want := []string{`[1,2]`, `{"x":"y"}`, `[{"x":"y"},1,2]`}; err != refused || !slices.Equal(copies, want) {
		t.Errorf("%v after %q, want %q", err, copies, want)
	}
}

// TestDepthIsBounded makes documents deeper than encoding/json reads, and texts that are as deep
// without being documents.
func TestDepthIsBounded(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	// The next copy goes into the innermost list of the copy.
	nested := func(copies, depth int) string {
		ops := []string{`{"op":"add","path":"/d","value":` + deep(depth) + `}`}
		at := "/d"
		for range copies {
			at += strings.Repeat("/0", depth-1)
			ops = append(ops, `{"op":"copy","from":"/d0","path":"`+at+`/-"}`)
			at += "/0"
		}
		return "[" + strings.Join(ops, ",") + "]"
	}
	for _, test := range []struct {
		name, patch, doc string
		depth            int // of the result
	}{
		{"a value as deep as may be", `[{"op":"add","path":"/a/0","value":` + deep(9998) + `}]`, `{"a":[]}`, 10000},
		{"a value too deep", `[{"op":"add","path":"/a/0/0","value":` + deep(9998) + `}]`, `{"a":[[]]}`, 10001},
		{"a copy too deep", `[{"op":"copy","from":"/a","path":"/b/0"}]`, `{"a":` + deep(9999) + `,"b":[]}`, 10001},
		{
			"a copy of copies", `[{"op":"copy","from":"/a","path":"/b` + strings.Repeat("/0", 5999) + `/-"},{"op":"copy","from":"/b","path":"/c"},{"op":"remove","path":"/b"}]`,
			`{"a":` + deep(6000) + `,"b":` + deep(6000) + `}`, 12001,
		},
		{"copies in copies", nested(12, 900), `{"d0":` + deep(900) + `}`, 11701},
		{"copies in copies, as deep as may be", nested(9, 999), `{"d0":` + deep(999) + `}`, 9991},
	} {
		got, err := apply(test.patch, test.doc)
		switch {
		case test.depth > 10000 && (err == nil || !strings.Contains(err.Error(), "exceeded max depth")):
			t.Errorf("%s: %d bytes, %v", test.name, len(got), err)
		case test.depth <= 10000 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case err == nil && !json.Valid(got):
			t.Errorf("%s: encoding/json does not read the result", test.name)
		}
	}
}

// counting is a context that ends after a number of calls of Err.
type counting struct {
	context.Context
	left int
}

func (c *counting) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func apply(patch, doc string) ([]byte, error) {
	p, err := jsonpatch.Decode([]byte(patch))
	if err != nil {
		return nil, err
	}
	return p.Apply(context.Background(), []byte(doc), nil)
}

// judged returns the result of the library, and whether it panics.
func judged(patch, doc string) (text string, panicked bool) {
	defer func() {
		if recover() != nil {
			panicked = true
		}
	}()
	p, err := library.DecodePatch([]byte(patch))
	if err != nil {
		return outcome(nil, err), false
	}
	return outcome(p.Apply([]byte(doc))), false
}

func outcome(patched []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(patched)
}

var randomKeys = []string{"a", "b", "c", "~", "/", "0", "<", "é"}

func randomPatch(r *rand.Rand) string {
	var ops []string
	for range 1 + r.IntN(3) {
		var members []string
		member := func(key, value string) {
			if r.IntN(40) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", key, value))
			}
		}
		member("op", quote([]string{"add", "add", "remove", "replace", "move", "test", "copy"}[r.IntN(7)]))
		member("path", quote(randomPath(r)))
		member("from", quote(randomPath(r)))
		member("value", randomValue(r, 2))
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		ops = append(ops, "{"+strings.Join(members, ", ")+"}")
	}
	return "[" + strings.Join(ops, " ,\n") + "]"
}

func randomPath(r *rand.Rand) string {
	var path strings.Builder
	for range 1 + r.IntN(3) - r.IntN(50)/49 {
		path.WriteByte('/')
		if r.IntN(4) == 0 {
			path.WriteString([]string{"-", "-1", "-2", "1", "+1", "00", "3", ""}[r.IntN(8)])
			continue
		}
		key := randomKeys[min(r.IntN(len(randomKeys)), r.IntN(len(randomKeys)))]
		path.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return path.String()
}

func randomObject(r *rand.Rand, depth int) string {
	var members []string
	for range r.IntN(7) {
		key := randomKeys[min(r.IntN(len(randomKeys)), r.IntN(len(randomKeys)))]
		members = append(members, quote(key)+" :"+randomValue(r, depth))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func randomValue(r *rand.Rand, depth int) string {
	switch n := r.IntN(10); {
	case n < 4 && depth > 0:
		return randomObject(r, depth-1)
	case n < 6 && depth > 0:
		var items []string
		for range r.IntN(4) {
			items = append(items, randomValue(r, depth-1))
		}
		return "[ " + strings.Join(items, " , ") + "]"
	}
	return []string{"null", "1", "1.0", "-2e3", "true", `"x"`, `"\u0078"`, `"a<b \" [{"`, `"  "`, `"\u2028"`}[r.IntN(10)]
}

func quote(s string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)
	return strings.TrimSpace(b.String())
}

// BenchmarkApply adds to the front of a list as many items as a patch may have operations.
func BenchmarkApply(b *testing.B) {
	for _, length := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("list=%d", length), func(b *testing.B) {
			doc := []byte(`{"l":[` + strings.TrimSuffix(strings.Repeat("0,", length), ",") + `]}`)
			data := slices.Concat([]byte("["), bytes.Repeat([]byte(`{"op":"add","path":"/l/0","value":1},`), 9999), []byte(`{"op":"add","path":"/l/0","value":1}]`))
			patch, err := jsonpatch.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := patch.Apply(b.Context(), doc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
