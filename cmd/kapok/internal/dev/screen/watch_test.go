package screen

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestWatch follows kinds that come and go on a server.
func TestWatch(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan struct{}, 1)
	table := newTable()
	w := newWatcher(server.Config(), table, func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx) }()
	defer func() { cancel(); <-ended }()
	await := func(want string) {
		t.Helper()
		limit := time.After(2 * time.Minute)
		for describe(table.rows()) != want {
			select {
			case <-changes:
			case <-limit:
				t.Fatalf("the objects are:\n%swant:\n%s", describe(table.rows()), want)
			}
		}
	}
	apply := func(text string) *unstructured.Unstructured {
		t.Helper()
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(dev.FieldManager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		return u
	}
	// isServed reads the definition: ok is what served reports, found whether there is one.
	isServed := func() (found, ok bool) {
		t.Helper()
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		if err := c.Get(t.Context(), client.ObjectKey{Name: "widgets.example.com"}, u); apierrors.IsNotFound(err) {
			return false, false
		} else if err != nil {
			t.Fatal(err)
		}
		_, _, ok = served(u)
		return true, ok
	}
	until := func(what string, done func() bool) {
		t.Helper()
		limit := time.After(2 * time.Minute)
		for !done() {
			select {
			case <-limit:
				t.Fatal(what)
			case <-time.After(time.Millisecond):
			}
		}
	}
	define := func() {
		t.Helper()
		apply(widgets)
		until("the kind is not served", func() bool { _, ok := isServed(); return ok })
	}

	// A kind that is defined appears, with what its objects own.
	define()
	x := apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: x, namespace: default}}")
	await("Widget default/x\n")
	apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: of-x, namespace: default, ownerReferences: [{apiVersion: example.com/v1, kind: Widget, name: x, uid: " + string(x.GetUID()) + "}]}}")
	apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: alone, namespace: default}}")
	await("Widget default/x\n  ConfigMap default/of-x\n")

	// Samples appear, also those of kinds that are not watched otherwise.
	apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	samples := []dev.Sample{
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: "team"},
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Unknown"}, Name: "team"},
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "default", Name: "alone"},
	}
	table.setSamples(samples)
	w.setSamples(samples)
	await("ConfigMap default/alone\nNamespace team\nWidget default/x\n  ConfigMap default/of-x\n")
	table.setSamples(nil)
	w.setSamples(nil)
	await("Widget default/x\n  ConfigMap default/of-x\n")

	// A definition of another manager is none of the project.
	other := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("widget", "gadget", "Widget", "Gadget").Replace(widgets)), &other.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	// A kind that vanishes takes its objects away, and comes back.
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(widgets), &definition.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), definition.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	await("")
	until("the definition is not deleted", func() bool { found, _ := isServed(); return !found })
	define()
	apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: other, namespace: default}}")
	await("Widget default/other\n")
}
