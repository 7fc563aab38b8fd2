package builtin

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kapok-dev/kapok/internal/builtin/openapi"
	"github.com/kapok-dev/kapok/internal/manage"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestFieldTypesAreShared compiles all kinds, one after the other in any order, and compares some of them with what comes of
// their definitions alone.
func TestFieldTypesAreShared(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var kinds []schema.GroupVersionKind
	for _, d := range WithRetired() {
		for _, v := range d.Versions {
			kinds = append(kinds, d.GroupVersionKind(v))
		}
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	shared := newFieldTypes()
	for i, gvk := range kinds {
		types, err := shared.of([]schema.GroupVersionKind{gvk})
		if err != nil {
			t.Fatal(err)
		}
		if types(gvk) == nil {
			t.Fatalf("%v has no type", gvk)
		}
		if other := kinds[random.IntN(len(kinds))]; other != gvk && types(other) != nil {
			t.Errorf("%v knows %v", gvk, other)
		}
		if i%10 != 0 {
			continue
		}
		definitions := openapi.Builtin()
		alone, _, err := manage.OfModels(definitions.Closure(definitions.NameOf(gvk)), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(types(gvk), alone[gvk]) {
			t.Errorf("%v comes out another way than alone", gvk)
		}
	}
}

func TestFieldTypesOfUnknownKinds(t *testing.T) {
	if _, err := newFieldTypes().of([]schema.GroupVersionKind{{Version: "v1", Kind: "Nothing"}}); err == nil {
		t.Error("no error")
	}
}
