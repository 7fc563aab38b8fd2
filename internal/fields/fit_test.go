package fields

import (
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smdtyped "sigs.k8s.io/structured-merge-diff/v6/typed"
)

// TestVerdicts compares three verdicts on random values: those of validation, of comparisons, and
// of the library.
func TestVerdicts(t *testing.T) {
	seed := seeds.Of(t)
	g := gen{Rand: rand.New(rand.NewPCG(seed, 0)), repeats: true}
	good, bad := 0, 0
	for range 40 {
		root := g.root()
		w := customWorld(t, map[string]*spec.Schema{"v1": root})
		n := w.types[w.gvk("v1")].root
		for range 100 {
			x, y := g.thing(w, "v1", root, g.IntN(5)), g.thing(w, "v1", root, g.IntN(5))
			_, err := w.judge.ObjectToTyped(&unstructured.Unstructured{Object: x}, smdtyped.AllowDuplicates)
			if got := n.fits(x, true); got != (err == nil) {
				t.Fatalf("%s fits: %v, the library returns %v", text(x), got, err)
			}
			_, err = w.judge.ObjectToTyped(&unstructured.Unstructured{Object: x})
			if got := validate(n, x, false); (got == nil) != (err == nil) {
				t.Fatalf("%s: %v, the library returns %v", text(x), got, err)
			}
			fit := n.fits(x, true) && n.fits(y, true)
			if _, ok := compare(n, x, y); ok != fit {
				t.Fatalf("%s and %s: comparison is ok: %v, but both fit: %v", text(x), text(y), ok, fit)
			}
			if fit {
				good++
			} else {
				bad++
			}
		}
	}
	if good == 0 || bad == 0 {
		t.Errorf("%d pairs fit, %d do not", good, bad)
	}
}
