package resource_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// freeModel accepts all objects without spec.bad.
type freeModel struct{}

func (freeModel) Fingerprint() uint64 { return 7 }

func (freeModel) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	var obj resource.Tree
	errs, err := json.UnmarshalStrict(data, &obj)
	if strict != nil {
		*strict = append(*strict, errs...)
	}
	return obj, err
}

func (freeModel) Normalise(obj resource.Tree, _ *[]error) (resource.Tree, error) { return obj, nil }

func (freeModel) Prune(obj resource.Tree) (resource.Tree, error) { return obj, nil }

func (freeModel) Validate(_ context.Context, obj, _ resource.Tree, _ string) field.ErrorList {
	spec, _ := obj["spec"].(map[string]any)
	if bad, ok := spec["bad"]; ok {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "bad"), bad, "must not be there")}
	}
	return nil
}

func (freeModel) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return func(schema.GroupVersionKind) *fields.Type { return fields.Deduced() }, nil
}
func (freeModel) PatchMeta() strategicpatch.LookupPatchMeta { return nil }
func (freeModel) New() runtime.Object                       { return nil }

// widgets are the custom resources of these tests: v2 is stored, v1 is served too.
func widgets() *resource.Definition {
	v2 := &resource.Version{
		Name:       "v2",
		Model:      freeModel{},
		Selectable: []string{"spec.color"},
		Fields: func(obj resource.Tree) map[string]string {
			spec, _ := obj["spec"].(map[string]any)
			color, _ := spec["color"].(string)
			return map[string]string{"spec.color": color}
		},
		Subresources: []resource.Subresource{{Name: "status", Prepare: func(obj, old resource.Tree) {
			obj["spec"] = old["spec"]
		}}},
		Scale: &resource.Scale{
			Replicas:       []string{"spec", "replicas"},
			StatusReplicas: []string{"status", "replicas"},
			Selector:       []string{"status", "selector"},
		},
	}
	v1 := &resource.Version{Name: "v1", Model: freeModel{}}
	return &resource.Definition{
		Group: "example.com", Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
		Namespaced: true, Custom: true, Versions: []*resource.Version{v2, v1}, Storage: v2,
		Strategy: resource.Strategy{
			PrepareCreate: func(obj resource.Tree) { obj["metadata"].(map[string]any)["generation"] = int64(1) },
			PrepareUpdate: func(obj, old resource.Tree) { obj["status"] = old["status"] },
		},
	}
}

func namespaces() *resource.Definition {
	v1 := &resource.Version{Name: "v1", Model: freeModel{}}
	return &resource.Definition{
		Plural: "namespaces", Singular: "namespace", Kind: "Namespace", ListKind: "NamespaceList",
		Versions: []*resource.Version{v1}, Storage: v1,
	}
}

// bench is a store with the namespace "default" and requests for it.
type bench struct {
	testing.TB
	*resource.Store
	widgets, namespaces *resource.Definition
	warnings            []string
}

func newBench(t testing.TB, opts state.Options) *bench {
	t.Helper()
	b := newBenchOn(t, memory.New(), opts)
	ns := b.request("default")
	ns.Definition, ns.Version, ns.Namespace, ns.Name = b.namespaces, b.namespaces.Storage, "", ""
	b.mustCreate(ns, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`)
	return b
}

// newBenchOn is a store on a journal, with what that holds.
func newBenchOn(t testing.TB, j journal.Journal, opts state.Options) *bench {
	t.Helper()
	st, err := state.Open(t.Context(), j, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	b := &bench{TB: t, widgets: widgets(), namespaces: namespaces()}
	b.Store = resource.NewStore(st, resource.NewRegistry(b.namespaces, b.widgets))
	return b
}

func (b *bench) request(name string) *resource.Request {
	return &resource.Request{
		Definition: b.widgets, Version: b.widgets.Storage, Namespace: "default", Name: name,
		Manager: "test", FieldValidation: metav1.FieldValidationStrict,
		Warn: func(w string) { b.warnings = append(b.warnings, w) },
	}
}

func (b *bench) mustCreate(r *resource.Request, body string) *object.Object {
	b.Helper()
	result, err := b.Create(b.Context(), r, resource.Body{Data: []byte(body)})
	if err != nil {
		b.Fatalf("create: %v", err)
	}
	return result.Object
}

func (b *bench) widget(name, rest string) *object.Object {
	b.Helper()
	return b.mustCreate(b.request(""), widgetJSON(name, rest))
}

func widgetJSON(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":%q}%s}`, name, rest)
}

func (b *bench) patch(r *resource.Request, kind types.PatchType, data string) (*object.Object, error) {
	result, err := b.Patch(b.Context(), r, resource.Patch{Type: kind, Data: []byte(data)})
	return result.Object, err
}

func (b *bench) mustPatch(name, data string) *object.Object {
	b.Helper()
	o, err := b.patch(b.request(name), types.MergePatchType, data)
	if err != nil {
		b.Fatalf("patch: %v", err)
	}
	return o
}

func (b *bench) tree(o *object.Object) resource.Tree {
	b.Helper()
	obj, err := resource.TreeOf(b.widgets, b.widgets.Storage, o)
	if err != nil {
		b.Fatal(err)
	}
	return obj
}

func (b *bench) mustList(o resource.ListOptions) resource.List {
	b.Helper()
	list, err := b.List(b.Context(), b.request(""), o)
	if err != nil {
		b.Fatalf("list: %v", err)
	}
	return list
}

func names(objects []*object.Object) (all []string) {
	for _, o := range objects {
		all = append(all, o.Key.Name)
	}
	return all
}

// drain returns the events that are there.
func (b *bench) drain(w *resource.Watch) (lines []string) {
	b.Helper()
	for {
		events, _, err := w.Next(context.Background())
		if err != nil {
			b.Fatalf("watch: %v", err)
		}
		if len(events) == 0 {
			return lines
		}
		for _, e := range events {
			if e.Object == nil {
				lines = append(lines, string(e.Type))
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %s", e.Type, e.Object.Key.Name))
		}
	}
}
