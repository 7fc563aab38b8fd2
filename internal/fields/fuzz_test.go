package fields

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FuzzHistories compares both sides on the random history of a seed.
func FuzzHistories(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { runHistory(t, seed, 25) })
}

// FuzzFields reads sets of fields of any bytes on both sides, and compares them, their spelling and
// the results of all operations.
func FuzzFields(f *testing.F) {
	f.Add(`{"f:a":{".":{},"f:b":{}}}`, `{"f:a":{}}`)
	f.Add(`{"k:{\"b\":1,\"a\":\"x\"}":{},"v:1.0":{},"i:01":{},"x:y":{}}`, `{"v:1":null}`)
	f.Add(`{"f:a":{"k:{}":{"v:\"\\u003c\"":{}}}}`, `{"f:a":{".":{"f:x":{}}},"f:c":{"x:":{}}}`)
	f.Add(`{"v:":{}}`, `{"k:{\"a\":{\"b\":[1]}}":{}}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		x, theirX, ok := readBoth(t, a)
		y, theirY, ok2 := readBoth(t, b)
		if !ok || !ok2 {
			return
		}
		for _, op := range []struct {
			name   string
			ours   fields
			theirs *fieldpath.Set
		}{
			{"union", union(x, y), theirX.Union(theirY)},
			{"difference", difference(x, y), theirX.Difference(theirY)},
			{"recursive difference", recursiveDifference(x, y), theirX.RecursiveDifference(theirY)},
			{"intersection", intersection(x, y), theirX.Intersection(theirY)},
		} {
			if got, want := text(op.ours), text(written(t, op.theirs)); got != want && !(got == "null" && want == "{}") {
				t.Errorf("%s of %s and %s:\n ours:   %s\n theirs: %s", op.name, a, b, got, want)
			}
		}
		if got, want := intersects(x, y), !theirX.Intersection(theirY).Empty(); got != want {
			t.Errorf("%s intersects %s: %v, want %v", a, b, got, want)
		}
		if got, want := includes(x, y), theirY.Difference(theirX).Empty(); got != want {
			t.Errorf("%s includes %s: %v, want %v", a, b, got, want)
		}
		var paths []string
		each(x, nil, func(path []string) bool { paths = append(paths, conflict{path: path}.field()); return true })
		var want []string
		theirX.Iterate(func(p fieldpath.Path) { want = append(want, p.String()) })
		if !reflect.DeepEqual(paths, want) {
			t.Errorf("the paths of %s are %q, want %q", a, paths, want)
		}
	})
}

// readBoth reads a set on both sides, from a tree, as in objects.
func readBoth(t *testing.T, s string) (fields, *fieldpath.Set, bool) {
	t.Helper()
	var tree any
	if json.Unmarshal([]byte(s), &tree) != nil {
		return nil, nil, false
	}
	if _, ok := tree.(map[string]any); !ok {
		return nil, nil, false
	}
	theirs := &fieldpath.Set{}
	err := theirs.FromJSON(strings.NewReader(text(tree)))
	ours, ourErr := respell(tree, true)
	if (err == nil) != (ourErr == nil) {
		t.Errorf("%s: ours %v, theirs %v", s, ourErr, err)
	}
	if err != nil || ourErr != nil {
		return nil, nil, false
	}
	if got, want := text(ours), text(written(t, theirs)); got != want {
		t.Errorf("%s:\n ours:   %s\n theirs: %s", s, got, want)
	}
	if !isSettled(nil, ours, true) {
		// Unusual spellings may be checked again, but must not change.
		if again, err := respell(ours, true); err != nil || !reflect.DeepEqual(again, ours) {
			t.Errorf("%s: spelt again %s, %v", text(ours), text(again), err)
		}
	}
	if set := tree.(map[string]any); isSettled(nil, set, true) && !reflect.DeepEqual(set, ours) {
		t.Errorf("%s is settled, but spelled %s", s, text(ours))
	}
	return ours, theirs, true
}

func written(t *testing.T, set *fieldpath.Set) (tree any) {
	t.Helper()
	b, err := set.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}
