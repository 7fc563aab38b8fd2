package client_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMergeFromLikeTheLibrary compares merge patches of random objects with those that the library
// makes.
func TestMergeFromLikeTheLibrary(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "spec": randomMembers(r, 3)}}
	}
	for range 5000 {
		from, to := object(), object()
		got, err := client.MergeFrom(from).Data(to)
		if err != nil {
			t.Fatal(err)
		}
		before, err := from.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		after, err := to.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want, err := jsonpatch.CreateMergePatch(before, after)
		if err != nil {
			t.Fatal(err)
		}
		var g, w any
		if json.Unmarshal(got, &g) != nil || json.Unmarshal(want, &w) != nil || !cmp.Equal(g, w) {
			t.Fatalf("from %s\nto %s\ngot  %s\nwant %s", before, after, got, want)
		}
	}
}

func randomMembers(r *rand.Rand, depth int) map[string]any {
	members := map[string]any{}
	for range r.IntN(5) {
		members[string(rune('a'+r.IntN(4)))] = randomMember(r, depth)
	}
	return members
}

func randomMember(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		return randomMembers(r, depth-1)
	case n == 3 && depth > 0:
		return []any{randomMember(r, depth-1), randomMember(r, depth-1)}
	case n == 4:
		return nil
	case n == 5:
		return "text"
	case n == 6:
		return 0.5
	}
	return int64(r.IntN(2))
}

// TestMergeFromKeepsLargeNumbers changes a number by less than float64 can tell.
func TestMergeFromKeepsLargeNumbers(t *testing.T) {
	from := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "n": int64(1 << 60)}}
	to := from.DeepCopy()
	to.Object["n"] = int64(1<<60 + 1)
	patch, err := client.MergeFrom(from).Data(to)
	if want := `{"n":1152921504606846977}`; err != nil || string(patch) != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}
