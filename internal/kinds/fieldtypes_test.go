package kinds_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/openapi"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestFieldTypesAreShared compiles all kinds in random order, and compares some of them with the
// result for each definition alone.
func TestFieldTypesAreShared(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var all []schema.GroupVersionKind
	for _, d := range kinds.WithRetired() {
		for _, v := range d.Versions {
			all = append(all, d.GroupVersionKind(v))
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	shared := kind.NewFieldTypes()
	for i, gvk := range all {
		types, err := shared.Of([]schema.GroupVersionKind{gvk})
		if err != nil {
			t.Fatal(err)
		}
		if types(gvk) == nil {
			t.Fatalf("%v has no type", gvk)
		}
		if other := all[random.IntN(len(all))]; other != gvk && types(other) != nil {
			t.Errorf("the types of %v include %v", gvk, other)
		}
		if i%10 != 0 {
			continue
		}
		definitions := openapi.Builtin()
		alone, _, err := fields.OfModels(definitions.Closure(definitions.NameOf(gvk)), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(types(gvk), alone[gvk]) {
			t.Errorf("%v differs from the type compiled alone", gvk)
		}
	}
}

func TestFieldTypesOfUnknownKinds(t *testing.T) {
	if _, err := kind.NewFieldTypes().Of([]schema.GroupVersionKind{{Version: "v1", Kind: "Nothing"}}); err == nil {
		t.Error("no error")
	}
}
