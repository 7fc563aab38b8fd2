package resource_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

// TestDeleteMeansOneObject removes an object between the two writes of its deletion, and creates
// another one of its name: the deletion is done then, and leaves the other object alone.
func TestDeleteMeansOneObject(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widgets.Deletion.Grace = func(resource.Tree, *int64) int64 { return 0 }
	first := b.widget("a", "")
	raced := false
	b.SetGate(resource.Gate{Claim: func(_ *resource.Claims, r *resource.Request, _, _ resource.Tree) error {
		if o, _ := b.State().Get(first.Key); raced || o == nil || !o.Meta.Deleting() {
			return nil
		}
		raced = true
		if _, err := b.Delete(t.Context(), b.request("a"), nil); err != nil {
			t.Error(err)
		}
		b.widget("a", "")
		return nil
	}})
	result, err := b.Delete(t.Context(), b.request("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !raced {
		t.Fatal("nothing happened between the two writes")
	}
	if result.Pending || result.Status == nil || result.Status.Details.UID != first.Meta.UID {
		t.Errorf("the answer is %+v, want that %s is deleted", result, first.Meta.UID)
	}
	second, _ := b.State().Get(first.Key)
	if second == nil || second.Meta.UID == first.Meta.UID || second.Meta.Deleting() {
		t.Errorf("the object that was created meanwhile is %v", second)
	}
}
