package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
)

func TestCreatePatch(t *testing.T) {
	tests := []struct{ original, current, want string }{
		{`{}`, `{}`, `null`},
		{`{"a":1}`, `{"a": 1}`, `null`},
		{`{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`},
		{`{"a":1}`, `{"b":1}`, `[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":1}]`},
		{`{"a":{}}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		{`{}`, `{"a":null}`, `[{"op":"add","path":"/a","value":null}]`},
		{`{"a/b":{"c~d":1}}`, `{"a/b":{}}`, `[{"op":"remove","path":"/a~1b/c~0d"}]`},
		{`{"":1}`, `{"":2}`, `[{"op":"replace","path":"/","value":2}]`},
		{`[1,2,3]`, `[2,3]`, `[{"op":"remove","path":"/0"}]`},
		{`[1,2,3]`, `[0,1,2,3]`, `[{"op":"add","path":"/0","value":0}]`},
		{`[1,2,3]`, `[1,5,6,3]`, `[{"op":"replace","path":"/1","value":5},{"op":"add","path":"/2","value":6}]`},
		{`[1,1]`, `[1]`, `[{"op":"remove","path":"/1"}]`},
		{`9007199254740993`, `9007199254740992`, `[{"op":"replace","path":"","value":9007199254740992}]`},
		{`{}`, `[]`, `[{"op":"replace","path":"","value":[]}]`},
		{`{"a":"<&>"}`, `{"a":"<&>"}`, `null`},
	}
	for _, test := range tests {
		ops, err := CreatePatch([]byte(test.original), []byte(test.current))
		got, _ := json.Marshal(ops)
		if err != nil || string(got) != test.want {
			t.Errorf("%s to %s: got %s, %v, want %s", test.original, test.current, got, err, test.want)
		}
	}
	for _, wrong := range []string{``, `{`, `{} {}`, `{"a":}`} {
		if _, err := CreatePatch([]byte(wrong), []byte(`{}`)); err == nil {
			t.Errorf("a patch of %q", wrong)
		}
		if resp := PatchResponseFromRaw([]byte(`{}`), []byte(wrong)); resp.Allowed || resp.Result.Code != 500 {
			t.Errorf("a patch to %q: got %+v", wrong, resp)
		}
	}
}

// TestRandomPatches decodes a random document without its unknown fields and changes it at random.
// The patch must make the change, and keep unknown fields of unchanged parts.
func TestRandomPatches(t *testing.T) {
	seed := seeds.Of(t)
	r := &documents{rand.New(rand.NewPCG(seed, 0))}
	for range 5000 {
		raw := map[string]any{"root": r.value(4)} // API servers do not allow a patch to replace the root of a document
		before := known(raw).(map[string]any)
		after := map[string]any{"root": r.change(before["root"])}
		var d difference
		d.value("", raw, before, after)
		text := encode(raw)
		if len(d.ops) > 0 {
			text = string(applyPatch(t, text, []byte(encode(d.ops))))
		}
		got, err := decodeJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if encode(known(got)) != encode(after) {
			t.Fatalf("raw    %s\nbefore %s\nafter  %s\nops    %s\ngot    %s", encode(raw), encode(before), encode(after), encode(d.ops), text)
		}
		if encode(before) == encode(after) && len(d.ops) > 0 {
			t.Fatalf("raw    %s\nis unchanged, but the patch is %s", encode(raw), encode(d.ops))
		}
	}
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type documents struct{ *rand.Rand }

// value returns a random document. The names of unknown fields begin with "?".
func (r *documents) value(depth int) any {
	kind := r.IntN(5)
	if depth == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		return json.Number(fmt.Sprint(r.IntN(3)))
	case 1:
		return []string{"", "x", "y/z"}[r.IntN(3)]
	case 2:
		return []any{nil, true, false}[r.IntN(3)]
	case 3:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = r.value(depth - 1)
		}
		return list
	default:
		object := map[string]any{}
		for range r.IntN(4) {
			object[[]string{"a", "b/c", "d~e", "?f", "?g"}[r.IntN(5)]] = r.value(depth - 1)
		}
		return object
	}
}

// known returns a document without its unknown fields.
func known(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = known(v[i])
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for key, value := range v {
			if !strings.HasPrefix(key, "?") {
				object[key] = known(value)
			}
		}
		return object
	}
	return v
}

// change returns a changed document, often with small changes only.
func (r *documents) change(v any) any {
	if r.IntN(12) == 0 {
		return known(r.value(2))
	}
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, item := range v {
			switch r.IntN(8) {
			case 0:
			case 1:
				list = append(list, known(r.value(1)), r.change(item))
			default:
				list = append(list, r.change(item))
			}
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if r.IntN(8) > 0 {
				object[key] = r.change(v[key])
			}
		}
		if r.IntN(4) == 0 {
			object["b/c"] = known(r.value(1))
		}
		return object
	}
	return v
}
