package resource_test

import (
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deploymentJSON is a deployment of some 1.2 KB, of a generation of its image.
func deploymentJSON(name string, image int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"default","labels":{"app":"web","tier":"front"},
"annotations":{"example.com/owner":"team-a","example.com/note":"an annotation of some length, as they are"}},
"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","tier":"front"}},
"spec":{"serviceAccountName":"web","containers":[{"name":"web","image":"registry.example.com/web:%d","args":["--port=8080","--verbose"],
"ports":[{"name":"http","containerPort":8080},{"name":"metrics","containerPort":9090}],
"env":[{"name":"A","value":"1"},{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}],
"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"memory":"128Mi"}},
"livenessProbe":{"httpGet":{"path":"/live","port":"http"},"periodSeconds":5},
"volumeMounts":[{"name":"config","mountPath":"/etc/web"}]}],
"volumes":[{"name":"config","configMap":{"name":"web"}}]}}}}`, name, image)
}

// BenchmarkWrite measures one write of a deployment in the store, over a journal in memory: what is
// above that in a request belongs to the endpoint, what is below to state, schema and manage.
func BenchmarkWrite(b *testing.B) {
	st, err := state.Open(b.Context(), memory.New(), state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	registry := resource.NewRegistry(kinds.Definitions()...)
	store := resource.NewStore(st, registry)
	if err := bootstrap.EnsureNamespaces(b.Context(), store); err != nil {
		b.Fatal(err)
	}
	var deployments *resource.Definition
	for _, d := range registry.Load().All() {
		if d.Plural == "deployments" {
			deployments = d
		}
	}
	request := func(name string) *resource.Request {
		return &resource.Request{
			Definition: deployments, Version: deployments.Storage, Namespace: "default", Name: name,
			Manager: "bench", FieldValidation: metav1.FieldValidationWarn, Warn: func(string) {},
		}
	}
	must := func(_ resource.Result, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(store.Create(b.Context(), request(""), resource.Body{Data: deploymentJSON("a", 0)}))
	must(store.Patch(b.Context(), request("applied"), resource.Patch{Type: types.ApplyYAMLPatchType, Data: deploymentJSON("applied", 0)}))
	n := 0
	for _, verb := range []struct {
		name string
		do   func()
	}{
		{"create", func() {
			must(store.Create(b.Context(), request(""), resource.Body{Data: deploymentJSON(fmt.Sprint("d", n), 0)}))
		}},
		{"update", func() {
			must(store.Update(b.Context(), request("a"), resource.Body{Data: deploymentJSON("a", n)}))
		}},
		{"merge-patch", func() {
			must(store.Patch(b.Context(), request("a"), resource.Patch{
				Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n),
			}))
		}},
		{"strategic-patch", func() {
			must(store.Patch(b.Context(), request("a"), resource.Patch{
				Type: types.StrategicMergePatchType,
				Data: fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"i:%d"}]}}}}`, n),
			}))
		}},
		{"apply", func() {
			must(store.Patch(b.Context(), request("applied"), resource.Patch{
				Type: types.ApplyYAMLPatchType, Data: deploymentJSON("applied", n),
			}))
		}},
		{"get", func() { must(store.Get(b.Context(), request("a"), "")) }},
	} {
		b.Run(verb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				verb.do()
			}
		})
	}
}
