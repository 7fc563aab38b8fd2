package resource

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// TestMergeTree compares the merge of trees with the library's of bytes.
func TestMergeTree(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		obj, patch := randomObject(r, 3), randomObject(r, 3)
		encoded, err := object.AppendJSON(nil, obj)
		if err != nil {
			t.Fatal(err)
		}
		encodedPatch, err := object.AppendJSON(nil, patch)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := jsonpatch.MergePatch(encoded, encodedPatch)
		if err != nil {
			t.Fatal(err)
		}
		want, err := object.DecodeTree(patched)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, merged(obj, patch)); diff != "" {
			t.Fatalf("%s patched with %s:\n%s", encoded, encodedPatch, diff)
		}
		for name, kept := range map[string]struct {
			tree    Tree
			encoded []byte
		}{"object": {obj, encoded}, "patch": {patch, encodedPatch}} {
			if now, err := object.AppendJSON(nil, kept.tree); err != nil || !bytes.Equal(now, kept.encoded) {
				t.Fatalf("the %s %s has become %s, %v", name, kept.encoded, now, err)
			}
		}
	}
}

func randomObject(r *rand.Rand, depth int) Tree {
	obj := Tree{}
	for range r.IntN(4) {
		obj[string(rune('a'+r.IntN(4)))] = randomValue(r, depth)
	}
	return obj
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		return randomObject(r, depth-1)
	case n == 3 && depth > 0:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	case n == 4:
		return nil
	case n == 5:
		return r.IntN(2) == 0
	case n == 6:
		return "text"
	}
	return int64(r.IntN(3))
}
