package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/openapi"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // the library logs invalid entries, which slows the test down
	os.Exit(m.Run())
}

// A world is the input of both sides: the schemas of a kind in its versions, conversion between
// them, and defaults.
type world struct {
	group, kind string
	custom      bool
	models      map[string]*spec.Schema
	renamed     bool // v2 calls spec.a spec.renamed
	blank       func() Tree
	defaults    func(Tree)

	judge managedfields.TypeConverter
	types map[schema.GroupVersionKind]*Type
}

func (w *world) build(t testing.TB) *world {
	t.Helper()
	var err error
	if w.judge, err = managedfields.NewTypeConverter(w.models, false); err != nil {
		t.Fatal(err)
	}
	if w.types, _, err = OfModels(w.models, false, nil); err != nil {
		t.Fatal(err)
	}
	if w.blank == nil {
		w.blank = func() Tree { return Tree{} }
	}
	return w
}

func (w *world) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: w.group, Version: version, Kind: w.kind}
}

// convert converts like the server.
func (w *world) convert(obj Tree, to schema.GroupVersion) (Tree, error) {
	has, _ := obj["apiVersion"].(string)
	from, err := schema.ParseGroupVersion(has)
	if err != nil {
		return nil, err
	}
	if from.Group != to.Group {
		return nil, fmt.Errorf("%v is not suitable for converting to %q", from.WithKind(w.kind), to)
	}
	if from == to {
		return obj, nil
	}
	if w.types[to.WithKind(w.kind)] == nil {
		return nil, runtime.NewNotRegisteredErrForKind("", to.WithKind(w.kind))
	}
	out := runtime.DeepCopyJSON(obj)
	out["apiVersion"] = to.String()
	if s, ok := out["spec"].(map[string]any); ok && w.renamed {
		a, b := "a", "renamed"
		if to.Version == "v1" {
			a, b = b, a
		}
		if v, ok := s[a]; ok {
			delete(s, a)
			s[b] = v
		}
	}
	return out, nil
}

// The interfaces that the library requires.

func (w *world) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: w.blank()}, nil
}

func (w *world) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok && w.defaults != nil {
		w.defaults(u.Object)
	}
}

func (w *world) Convert(in, out, context any) error { return errors.New("not called") }

func (w *world) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (w *world) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	u := in.(*unstructured.Unstructured)
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("%v is not suitable for converting to %q", u.GroupVersionKind(), target)
	}
	obj, err := w.convert(u.Object, gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: obj}, nil
}

// pair is the managers of both sides.
type pair struct {
	ours   *Manager
	theirs *managedfields.FieldManager
}

func (w *world) managers(t testing.TB, version, subresource string, reset *fieldpath.Set) pair {
	t.Helper()
	gvk := w.gvk(version)
	o := Options{
		Kind: gvk, Subresource: subresource, Convert: w.convert, New: w.blank,
		Type: func(gvk schema.GroupVersionKind) *Type { return w.types[gvk] },
		Default: func(obj Tree) Tree {
			if w.defaults != nil {
				w.defaults(obj)
			}
			return obj
		},
	}
	var filters map[fieldpath.APIVersion]fieldpath.Filter
	if reset != nil {
		o.Reset = map[string]*fieldpath.Set{gvk.GroupVersion().String(): reset}
		filters = fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): reset})
	}
	ours, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	build := managedfields.NewDefaultFieldManager
	if w.custom {
		build = managedfields.NewDefaultCRDFieldManager
	}
	theirs, err := build(w.judge, w, w, w, gvk, gvk.GroupVersion(), subresource, filters)
	if err != nil {
		t.Fatal(err)
	}
	return pair{ours, theirs}
}

// outcome is the result of a request.
type outcome struct {
	obj Tree
	err error
}

func (p pair) update(live, obj Tree, manager string) (ours, theirs outcome) {
	from := runtime.DeepCopyJSON(live)
	ours.obj, ours.err = p.ours.Update(from, runtime.DeepCopyJSON(obj), manager)
	if !reflect.DeepEqual(from, live) {
		ours.err = fmt.Errorf("the live object was changed: %s", text(from))
	}
	result, err := p.theirs.Update(boxed(live), boxed(obj), manager)
	return ours, unboxed(result, err)
}

func (p pair) apply(live, applied Tree, manager string, force bool) (ours, theirs outcome) {
	from := runtime.DeepCopyJSON(live)
	config := runtime.DeepCopyJSON(applied)
	ours.obj, ours.err = p.ours.Apply(from, config, manager, force)
	if ours.err == nil {
		result := runtime.DeepCopyJSON(ours.obj)
		dropEntries(ours.obj) // entries may be shared
		scribble(ours.obj)
		ours.obj = result
	}
	if !reflect.DeepEqual(from, live) || !reflect.DeepEqual(config, applied) {
		ours.err = fmt.Errorf("the live object or the applied one was changed, or is shared with the result: %s, %s", text(from), text(config))
	}
	result, err := p.theirs.Apply(boxed(live), boxed(applied), manager, force)
	return ours, unboxed(result, err)
}

// scribble overwrites all parts of a value.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			scribble(item)
			v[k] = "scribbled"
		}
	case []any:
		for i, item := range v {
			scribble(item)
			v[i] = "scribbled"
		}
	}
}

func boxed(t Tree) runtime.Object { return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(t)} }

func unboxed(obj runtime.Object, err error) outcome {
	if err != nil {
		return outcome{err: err}
	}
	return outcome{obj: obj.(*unstructured.Unstructured).Object}
}

// clockAt returns the time of a step.
func clockAt(step int) time.Time { return time.Unix(1_600_000_000+int64(step), 0) }

// settleTimes replaces recent times in managedFields, so that sequences are reproducible and every
// step has its own time.
func settleTimes(obj Tree, to time.Time) {
	meta, _ := obj["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	for _, e := range list {
		m := e.(map[string]any)
		at, _ := m["time"].(string)
		if parsed, err := time.Parse(time.RFC3339, at); err == nil && time.Since(parsed) < time.Hour {
			fresh := make(map[string]any, len(m))
			for k, v := range m {
				fresh[k] = v
			}
			fresh["time"] = to.UTC().Format(time.RFC3339)
			for i := range list {
				if reflect.ValueOf(list[i]).Pointer() == reflect.ValueOf(m).Pointer() {
					list[i] = fresh
				}
			}
		}
	}
}

// disagreement describes the difference between two outcomes; "" if there is none.
func disagreement(ours, theirs outcome) string {
	if (ours.err == nil) != (theirs.err == nil) {
		return fmt.Sprintf("errors:\n ours:   %v\n theirs: %v", ours.err, theirs.err)
	}
	if ours.err != nil {
		return errorDisagreement(ours.err, theirs.err)
	}
	if !reflect.DeepEqual(ours.obj, theirs.obj) {
		return fmt.Sprintf("objects:\n ours:   %s\n theirs: %s", text(ours.obj), text(theirs.obj))
	}
	return ""
}

func errorDisagreement(ours, theirs error) string {
	var a, b *apierrors.StatusError
	if errors.As(ours, &a) != errors.As(theirs, &b) {
		return fmt.Sprintf("kinds of errors:\n ours:   %#v\n theirs: %#v", ours, theirs)
	}
	if a != nil && a.ErrStatus.Details != nil && b.ErrStatus.Details != nil {
		if !reflect.DeepEqual(causes(a), causes(b)) || a.ErrStatus.Message != b.ErrStatus.Message || a.ErrStatus.Code != b.ErrStatus.Code || a.ErrStatus.Reason != b.ErrStatus.Reason {
			return fmt.Sprintf("conflicts:\n ours:   %s\n theirs: %s", text(a.ErrStatus), text(b.ErrStatus))
		}
		return ""
	}
	if strings.Contains(theirs.Error(), "errors:\n") || strings.Contains(ours.Error(), "errors:\n") {
		return "" // the library returns some of many errors, in any order
	}
	if ours.Error() != theirs.Error() {
		return fmt.Sprintf("errors:\n ours:   %v\n theirs: %v", ours, theirs)
	}
	return ""
}

// causes returns the sorted causes of an error: their order in the library is random.
func causes(err *apierrors.StatusError) (all []string) {
	for _, c := range err.ErrStatus.Details.Causes {
		all = append(all, text(c))
	}
	slices.Sort(all)
	return all
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// builtinWorld returns the world of a built-in kind with the schema that Kubernetes publishes.
func builtinWorld(t testing.TB, gvk schema.GroupVersionKind) *world {
	t.Helper()
	d := openapi.Builtin()
	models := d.Closure(d.NameOf(gvk))
	if models == nil {
		t.Fatalf("no schema of %v", gvk)
	}
	return (&world{group: gvk.Group, kind: gvk.Kind, models: models}).build(t)
}

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// customWorld returns the world of a custom kind with a version for each schema.
func customWorld(t testing.TB, versions map[string]*spec.Schema) *world {
	t.Helper()
	w := &world{group: "example.com", kind: "Thing", custom: true, models: map[string]*spec.Schema{}}
	for name, s := range openapi.Builtin().Closure(objectMeta) {
		w.models[name] = s
	}
	for version, s := range versions {
		text := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}}}
		s.SetProperty("apiVersion", text)
		s.SetProperty("kind", text)
		s.SetProperty("metadata", *spec.RefSchema(openapi.RefPrefix + objectMeta))
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": w.group, "version": version, "kind": w.kind}})
		w.models["com.example."+version+".Thing"] = s
	}
	return w.build(t)
}
