package crd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds/openapi"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// merging is a schema with every way in which values are merged.
const merging = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com, uid: u}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              text: {type: string, default: x}
              any: {x-kubernetes-preserve-unknown-fields: true}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object, properties: {a: {type: string}}}}}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              atomic: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}
              labels: {type: object, additionalProperties: {type: string}}
              nested: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
              list: {type: array, items: {type: object, properties: {a: {type: string}}}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              map:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, port]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer, default: 80}, v: {type: string}}}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              maybe: {type: string, nullable: true}
`

// TestFieldTypes compares the fields found with the types of this package with those that the
// library finds with Kubernetes' types.
func TestFieldTypes(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(merging), crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	crd.Status.AcceptedNames = crd.Spec.Names
	raw, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, preserve := range []bool{false, true} {
		crd.Spec.PreserveUnknownFields = preserve
		built, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		models := built.Components.Schemas
		for name, s := range openapi.Builtin().Closure(objectMetaName) {
			models[name] = s
		}
		judge, err := managedfields.NewTypeConverter(models, preserve)
		if err != nil {
			t.Fatal(err)
		}
		m, err := readManifest(&object.Object{Raw: raw})
		if err != nil {
			t.Fatal(err)
		}
		m.Spec.PreserveUnknownFields = preserve
		ours, err := newFieldTypes(m, newSource(m.object, newPrograms())).types()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			`{metadata: {name: a, labels: {a: b}, ownerReferences: [{uid: u, name: nm, kind: k, apiVersion: v}]}}`,
			`{spec: {text: a, any: {a: [1, {b: c}]}, open: {known: {a: b}, other: {c: [d]}}, port: 1, maybe: null}}`,
			`{spec: {atomic: {a: b}, labels: {a: b, c: d}, nested: {x: {a: b}}}}`,
			`{spec: {list: [{a: b}], set: [a, b], map: [{name: a, v: x}, {name: a, port: 81}]}}`,
			`{spec: {template: {apiVersion: v1, kind: Pod, metadata: {name: nm, labels: {a: b}}, spec: {containers: [{name: c}]}}}}`,
			`{spec: {port: a, unknown: 1}}`,
			`{extra: {a: {b: c}}}`,
			`{spec: {set: [a, a]}}`,
			`{spec: {map: [{v: x}]}}`,
		} {
			obj := resource.Tree{}
			if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
				t.Fatal(err)
			}
			obj["apiVersion"], obj["kind"] = "example.com/v1", "Widget"
			gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
			manager, err := fields.New(fields.Options{Kind: gvk, Type: ours})
			if err != nil {
				t.Fatal(err)
			}
			if want, got := judgedFields(judge, obj), appliedFields(manager, gvk, obj); want != got {
				t.Errorf("preserve %v: %s:\n got %s\nwant %s", preserve, text, got, want)
			}
		}
	}
}

// appliedFields returns the fields that the manager of an apply owns.
func appliedFields(m *fields.Manager, gvk schema.GroupVersionKind, obj resource.Tree) string {
	live := resource.Tree{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind}
	applied, err := m.Apply(live, obj, "other", false)
	if err != nil {
		_, text, _ := strings.Cut(err.Error(), "Kind=Widget): ")
		return text
	}
	u := &unstructured.Unstructured{Object: applied}
	for _, e := range u.GetManagedFields() {
		return e.FieldsV1.GetRawString()
	}
	return "{}"
}

// judgedFields returns the same fields according to the library.
func judgedFields(c managedfields.TypeConverter, obj resource.Tree) string {
	typed, err := c.ObjectToTyped(&unstructured.Unstructured{Object: obj})
	if err != nil {
		return err.Error()
	}
	set, err := typed.ToFieldSet()
	if err != nil {
		return err.Error()
	}
	unmanaged := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata", "name"))
	data, err := set.Difference(unmanaged).ToJSON()
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err.Error()
	}
	if data, err = json.Marshal(tree); err != nil {
		return err.Error()
	}
	return string(data)
}

// TestManyVersionsCostNoMoreEach makes the field types of definitions with more and more versions:
// the allocations for each version must not grow with their number.
func TestManyVersionsCostNoMoreEach(t *testing.T) {
	each := func(n int) float64 {
		var versions []any
		for i := range n {
			versions = append(versions, resource.Tree{
				"name": fmt.Sprint("v", i+1), "served": true, "storage": i == 0,
				"schema": resource.Tree{"openAPIV3Schema": resource.Tree{"type": "object", "description": fmt.Sprint(i)}},
			})
		}
		o, err := object.New(object.Key{Resource: Resource, Name: "foos.example.com"}, resource.Tree{
			"metadata": resource.Tree{"name": "foos.example.com", "uid": "u"},
			"spec":     resource.Tree{"group": "example.com", "versions": versions},
		}, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m, err := readManifest(o)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			if _, err := newFieldTypes(m, newSource(o, newPrograms())).build(); err != nil {
				t.Error(err)
			}
		}) / float64(n)
	}
	if few, many := each(10), each(200); many > 2*few {
		t.Errorf("%.0f allocations for each of 10 versions, %.0f for each of 200", few, many)
	}
}
