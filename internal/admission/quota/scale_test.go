package quota

import (
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A world is a store with Quotas, and one quota in each of some namespaces.
type world struct {
	testing.TB
	store *resource.Store
}

func newWorld(t testing.TB, namespaces int) world {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := resource.NewRegistry(kinds.Definitions()...)
	w := world{t, resource.NewStore(st, registry)}
	q := New(registry, Options{Enforce: true})
	w.store.SetGate(resource.Gate{Claim: q.Claim, Spares: q.Spares})
	for i := range namespaces {
		namespace := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns%d"}}`, i)
		if _, err := w.store.Create(t.Context(), w.request(schema.GroupResource{Resource: "namespaces"}, ""), resource.Body{Data: namespace}); err != nil {
			t.Fatal(err)
		}
		r := w.request(quotas, fmt.Sprint("ns", i))
		body := `{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1000000", "configmaps": "5"}}}`
		if _, err := w.store.Create(t.Context(), r, resource.Body{Data: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w world) request(gr schema.GroupResource, namespace string) *resource.Request {
	d := w.store.Registry().Load().Resource(gr)
	return &resource.Request{
		Definition: d, Version: d.Storage, Namespace: namespace,
		Manager: "test", FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}

// change changes the spec of a namespace's quota.
func (w world) change(namespace string, i int) {
	w.Helper()
	r := w.request(quotas, namespace)
	r.Name = "q"
	patch := resource.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"spec": {"hard": {"configmaps": "%d"}}}`, 1+i%9)}
	if _, err := w.store.Patch(w.Context(), r, patch); err != nil {
		w.Fatal(err)
	}
}

// pod creates a pod, and deletes it.
func (w world) pod(namespace string) {
	w.Helper()
	r := w.request(pods, namespace)
	body := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`
	if _, err := w.store.Create(w.Context(), r, resource.Body{Data: []byte(body)}); err != nil {
		w.Fatal(err)
	}
	r = w.request(pods, namespace)
	r.Name = "p"
	zero := int64(0)
	if _, err := w.store.Delete(w.Context(), r, &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		w.Fatal(err)
	}
}

// TestChangeCostsWhatItChanges checks that a change of a quota, and a pod that another quota
// counts, allocate the same however many quotas other namespaces have.
func TestChangeCostsWhatItChanges(t *testing.T) {
	cost := func(namespaces int) float64 {
		w := newWorld(t, namespaces)
		i := 0
		return testing.AllocsPerRun(20, func() {
			i++
			w.change("ns1", i)
			w.pod("ns2")
		})
	}
	few, many := cost(10), cost(500)
	if many > 1.2*few {
		t.Errorf("%v allocations with 500 quotas, %v with 10", many, few)
	}
}

// BenchmarkAfterChange creates and deletes a pod after a change of a quota in another namespace.
func BenchmarkAfterChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint("quotas=", n), func(b *testing.B) {
			w := newWorld(b, n)
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				w.change("ns1", i)
				b.StartTimer()
				w.pod("ns2")
			}
		})
	}
}
