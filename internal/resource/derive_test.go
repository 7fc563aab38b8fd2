package resource_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeriveSharesNothing checks that a patched object has no part of the one that the write has
// read, except for entries of managedFields: later steps change the object, and compare it with the
// old one.
func TestDeriveSharesNothing(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", `,"spec":{"list":[{"x":{"y":1}}],"map":{"a":{"b":"c"}},"n":1}`)
	for name, p := range map[string]resource.Patch{
		"merge":           {Type: types.MergePatchType, Data: []byte(`{"spec":{"map":{"d":{}}}}`)},
		"JSON":            {Type: types.JSONPatchType, Data: []byte(`[{"op":"copy","from":"/spec/map","path":"/spec/other"}]`)},
		"apply":           {Type: types.ApplyPatchType, Data: []byte(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"m":1}}`)},
		"apply the same":  {Type: types.ApplyPatchType, Data: []byte(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"n":1}}`)},
		"a merge of none": {Type: types.MergePatchType, Data: []byte(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.request("a")
			r.Manager = "tester"
			old, obj, err := b.Derived(t.Context(), r, p)
			if err != nil {
				t.Fatal(err)
			}
			before := runtime.DeepCopyJSON(old)
			delete(obj["metadata"].(map[string]any), "managedFields")
			scramble(obj)
			if diff := cmp.Diff(before, old); diff != "" {
				t.Errorf("the object that was read has changed:\n%s", diff)
			}
		})
	}
}

// scramble changes everything in a tree.
func scramble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			scramble(member)
			v[key] = "scrambled"
		}
		v["added"] = true
	case []any:
		for i, item := range v {
			scramble(item)
			v[i] = "scrambled"
		}
	}
}
