package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func typedPod(t *testing.T, converter managedfields.TypeConverter, text string) *typed.TypedValue {
	t.Helper()
	v, err := converter.ObjectToTyped(object(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMergeByKey checks that the definitions have what server-side apply needs: list items of two
// managers are merged by their keys, with the default of a missing protocol.
func TestMergeByKey(t *testing.T) {
	for name, converter := range converters(t) {
		t.Run(name, func(t *testing.T) { mergeByKey(t, converter) })
	}
}

func mergeByKey(t *testing.T, converter managedfields.TypeConverter) {
	one := typedPod(t, converter, `{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [a]}, spec: {
		containers: [{name: a, image: one, args: [x], ports: [{containerPort: 80}]}, {name: b, image: b}]}}`)
	two := typedPod(t, converter, `{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [b]}, spec: {
		containers: [{name: a, image: two, args: [z], ports: [{containerPort: 80, protocol: TCP, name: web}, {containerPort: 80, protocol: UDP}]}]}}`)
	merged, err := one.Merge(two)
	if err != nil {
		t.Fatal(err)
	}
	got, err := converter.TypedToObject(merged)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.Marshal(object(t, `{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [a, b]}, spec: {
		containers: [{name: a, image: two, args: [z], ports: [{containerPort: 80, protocol: TCP, name: web}, {containerPort: 80, protocol: UDP}]},
			{name: b, image: b}]}}`).Object)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}

	fields, err := one.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	key := fieldpath.KeyByFields("containerPort", 80, "protocol", "TCP")
	if path := fieldpath.MakePathOrDie("spec", "containers", fieldpath.KeyByFields("name", "a"), "ports", key, "containerPort"); !fields.Has(path) {
		t.Errorf("%v is not among the fields %v", path, fields)
	}
}

// converters returns apimachinery's converter and this package's.
func converters(t *testing.T) map[string]managedfields.TypeConverter {
	t.Helper()
	library, err := managedfields.NewTypeConverter(Builtin().Closure("io.k8s.api.core.v1.Pod"), false)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := NewTypeConverter(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]managedfields.TypeConverter{"library": library, "shared": shared}
}

func TestRefused(t *testing.T) {
	for name, converter := range converters(t) {
		if _, err := converter.ObjectToTyped(object(t, `{apiVersion: v1, kind: Pod, spec: {nothing: 1}}`)); err == nil {
			t.Errorf("%s: an unknown field is accepted", name)
		}
		_, err := converter.ObjectToTyped(object(t, `{apiVersion: v1, kind: Nothing}`))
		if want := "no corresponding type for /v1, Kind=Nothing"; err == nil || err.Error() != want {
			t.Errorf("%s: for an unknown kind got %v, want %s", name, err, want)
		}
	}
}

// TestStructured converts Go objects instead of unstructured ones.
func TestStructured(t *testing.T) {
	for name, converter := range converters(t) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		value, err := converter.ObjectToTyped(pod)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fields, err := value.ToFieldSet()
		if err != nil || !fields.Has(fieldpath.MakePathOrDie("spec", "containers", fieldpath.KeyByFields("name", "a"), "name")) {
			t.Errorf("%s: %v %v", name, fields, err)
		}
	}
}

// TestCompiledAsTheLibraryDoes compares every type of every kind with the library's.
func TestCompiledAsTheLibraryDoes(t *testing.T) {
	shared, err := NewTypeConverter(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for name, raw := range Builtin().All() {
		var definition struct {
			Kinds []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if err := json.Unmarshal([]byte(raw), &definition); err != nil {
			t.Fatal(err)
		}
		if len(definition.Kinds) == 0 {
			continue
		}
		kinds++
		parseable, err := shared.kind(schema.GroupVersionKind(definition.Kinds[0]))
		if err != nil || parseable == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		library, err := schemaconv.ToSchemaFromOpenAPI(Builtin().Closure(name), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := sorted(parseable.Schema.Types), sorted(library.Types); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is compiled differently", name)
		}
	}
	if kinds == 0 {
		t.Error("there are no kinds")
	}
}

func sorted(types []smd.TypeDef) []smd.TypeDef {
	byName := func(a, b smd.StructField) int { return strings.Compare(a.Name, b.Name) }
	var sortFields func(a smd.Atom)
	sortFields = func(a smd.Atom) {
		if a.Map != nil {
			slices.SortFunc(a.Map.Fields, byName)
			for _, field := range a.Map.Fields {
				sortFields(field.Type.Inlined)
			}
			sortFields(a.Map.ElementType.Inlined)
		}
		if a.List != nil {
			sortFields(a.List.ElementType.Inlined)
		}
	}
	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b smd.TypeDef) int { return strings.Compare(a.Name, b.Name) })
	for _, def := range types {
		sortFields(def.Atom)
	}
	return types
}

func BenchmarkGet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Builtin().Get("io.k8s.api.core.v1.PodSpec")
	}
}

func BenchmarkClosure(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Builtin().Closure("io.k8s.api.core.v1.Pod")
	}
}

func BenchmarkSharedTypeConverter(b *testing.B) {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, c := range []struct {
		name          string
		before, kinds []schema.GroupVersionKind
	}{
		{"Pod", nil, []schema.GroupVersionKind{pod}},
		{"DeploymentAfterPod", []schema.GroupVersionKind{pod}, []schema.GroupVersionKind{deployment}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				shared, err := NewTypeConverter(Builtin())
				if err != nil {
					b.Fatal(err)
				}
				compile := func(kinds []schema.GroupVersionKind) {
					for _, kind := range kinds {
						if parseable, err := shared.kind(kind); err != nil || parseable == nil {
							b.Fatal(err)
						}
					}
				}
				compile(c.before)
				b.StartTimer()
				compile(c.kinds)
			}
		})
	}
}

func BenchmarkTypeConverter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := managedfields.NewTypeConverter(Builtin().Closure("io.k8s.api.core.v1.Pod"), false); err != nil {
			b.Fatal(err)
		}
	}
}
