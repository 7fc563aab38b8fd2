package crd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/schema"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// full has every subresource, and two versions that differ in them.
const full = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.replicas, description: how many}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status', priority: 1}
    - {name: Since, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields:
    - jsonPath: .spec.color
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              replicas: {type: integer}
              color: {type: string}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              phase: {type: string, enum: [Up, Down]}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
  - name: v1alpha1
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
`

func (s *server) patchStatus(d *resource.Definition, name, data string) (resource.Tree, error) {
	return s.patch(d, "v1", "status", name, data)
}

func (s *server) patch(d *resource.Definition, version, subresource, name, data string) (resource.Tree, error) {
	s.t.Helper()
	r := s.request(d, version)
	r.Name, r.Subresource = name, subresource
	result, err := s.store.Patch(context.Background(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(data)})
	if err != nil {
		return nil, err
	}
	if result.Object == nil {
		return result.Tree, nil
	}
	return s.read(r, result.Object), nil
}

func TestSubresources(t *testing.T) {
	s := newServer(t)
	s.mustCreate(full)
	d := s.established("widgets.example.com")
	var versions []string
	for _, v := range d.Versions {
		versions = append(versions, v.Name)
	}
	if !slices.Equal(versions, []string{"v1", "v1beta1"}) || d.Storage.Name != "v1" {
		t.Errorf("versions %q, stored %s", versions, d.Storage.Name)
	}
	generation := func(obj resource.Tree) int64 { return obj["metadata"].(resource.Tree)["generation"].(int64) }

	obj := s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {replicas: 2}, status: {phase: Up}}`)
	if _, has := obj["status"]; has || generation(obj) != 1 {
		t.Errorf("created: %v", obj)
	}
	obj, err := s.patchStatus(d, "w", `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":9},"status":{"phase":"Up"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, labelled := obj["metadata"].(resource.Tree)["labels"]; labelled || generation(obj) != 1 ||
		!object.Equal(obj["spec"], resource.Tree{"replicas": int64(2)}) || !object.Equal(obj["status"], resource.Tree{"phase": "Up"}) {
		t.Errorf("after a write of the status: %v", obj)
	}
	if obj, err = s.patch(d, "v1", "", "w", `{"spec":{"replicas":3},"status":{"phase":"Down"}}`); err != nil {
		t.Fatal(err)
	}
	if generation(obj) != 2 || !object.Equal(obj["status"], resource.Tree{"phase": "Up"}) {
		t.Errorf("after a write of the spec: %v", obj)
	}
	if obj, err = s.patch(d, "v1", "", "w", `{"metadata":{"labels":{"a":"b"}}}`); err != nil || generation(obj) != 2 {
		t.Errorf("after a write of metadata: %v, %v", obj, err)
	}
	// In v1beta1 the status is an ordinary field.
	if obj, err = s.patch(d, "v1beta1", "", "w", `{"status":{"phase":"Down"}}`); err != nil || generation(obj) != 3 ||
		!object.Equal(obj["status"], resource.Tree{"phase": "Down"}) {
		t.Errorf("after a write of the status as a field: %v, %v", obj, err)
	}

	for _, test := range []struct{ name, subresource, patch, want string }{
		{"enum", "status", `{"status":{"phase":"Sideways"}}`, `status.phase: Unsupported value: "Sideways": supported values: "Up", "Down"`},
		{"negative", "", `{"spec":{"replicas":-1}}`, `spec.replicas: Invalid value: -1: should be a non-negative integer`},
		{"too many", "", `{"spec":{"replicas":2147483648}}`, `spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647`},
		{"negative status", "status", `{"status":{"replicas":-1}}`, `status.replicas: Invalid value: -1: should be a non-negative integer`},
	} {
		if _, err := s.patch(d, "v1", test.subresource, "w", test.patch); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}

	scale, err := s.patch(d, "v1", "scale", "w", `{"spec":{"replicas":7}}`)
	if err != nil {
		t.Fatal(err)
	}
	if !object.Equal(scale["spec"], resource.Tree{"replicas": int64(7)}) {
		t.Errorf("scale: %v", scale)
	}
}

func TestDeprecation(t *testing.T) {
	s := newServer(t)
	s.mustCreate(full)
	d := s.established("widgets.example.com")
	if got, want := served(d, "v1beta1").Warning, "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
	if got := served(d, "v1").Warning; got != "" {
		t.Errorf("warning of v1: %q", got)
	}
	own := "mind the gap"
	m := &manifest{Spec: manifestSpec{Group: "g"}}
	if got := deprecation(m, &manifestVersion{Name: "v1", DeprecationWarning: &own}); got != own {
		t.Errorf("warning %q, want %q", got, own)
	}
}

func TestFinalizerWarnings(t *testing.T) {
	obj := func(finalizers ...any) resource.Tree {
		return resource.Tree{"metadata": resource.Tree{"finalizers": finalizers}}
	}
	want := []string{
		`metadata.finalizers: "bare": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`,
		`metadata.finalizers: "example.com": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`,
	}
	got := finalizerWarnings(obj("example.com/fine", "example.com", "orphan", "bare", "old"), obj("old"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got := finalizerWarnings(obj("bad name!"), nil); len(got) != 2 || !strings.Contains(got[0], "name part must consist of alphanumeric characters") {
		t.Errorf("warnings %q", got)
	}
}

func TestTable(t *testing.T) {
	s := newServer(t)
	s.mustCreate(full)
	d := s.established("widgets.example.com")
	v := served(d, "v1")
	var headers []string
	for _, c := range v.Columns {
		headers = append(headers, c.Name+" "+c.Type+" "+c.Description)
	}
	if diff := cmp.Diff([]string{
		"Size integer how many",
		`Ready string Custom resource definition column (in JSONPath format): .status.conditions[?(@.type=="Ready")].status`,
		"Since date Custom resource definition column (in JSONPath format): .metadata.creationTimestamp",
	}, headers[1:]); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	obj := s.tree(`{metadata: {name: w, creationTimestamp: "2026-01-01T11:58:00Z"}, spec: {color: red},
		status: {conditions: [{type: Other, status: X}, {type: Ready, status: "True"}]}}`)
	obj["spec"].(resource.Tree)["replicas"] = int64(4)
	if diff := cmp.Diff([]any{"w", int64(4), "True", "2m"}, v.Cells(obj, now)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"w", nil, nil, nil}, v.Cells(resource.Tree{"metadata": resource.Tree{"name": "w"}}, now)); diff != "" {
		t.Errorf("cells of an empty object (-want +got):\n%s", diff)
	}
	if got := served(d, "v1beta1").Columns; len(got) != 2 || got[1].Name != "Age" || got[1].Type != "date" {
		t.Errorf("columns by default: %v", got)
	}
	if diff := cmp.Diff(map[string]string{"spec.color": "red"}, v.Fields(obj)); diff != "" || !slices.Equal(v.Selectable, []string{"spec.color"}) {
		t.Errorf("fields of %q (-want +got):\n%s", v.Selectable, diff)
	}
}

func TestCells(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		kind  string
		value any
		want  any
	}{
		{"string", "a", "a"},
		{"string", int64(3), "3"},
		{"string", 2.5, "2.5"},
		{"string", true, "true"},
		{"string", map[string]any{"a": "b"}, `{"a":"b"}`},
		{"string", []any{"a", int64(1)}, `["a",1]`},
		{"integer", int64(3), int64(3)},
		{"integer", 3.9, int64(3)},
		{"integer", "3", nil},
		{"number", int64(3), float64(3)},
		{"number", 2.5, 2.5},
		{"boolean", false, false},
		{"boolean", "false", nil},
		{"date", "2026-01-01T11:00:00Z", "60m"},
		{"date", "yesterday", "<invalid>"},
		{"date", "", "<unknown>"},
		{"date", nil, nil},
		{"integer", nil, nil},
	} {
		if diff := cmp.Diff(test.want, cell(test.kind, test.value, now)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", test.kind, test.value, diff)
		}
	}
}

// TestPublish checks the schemas that OpenAPI documents are made from.
func TestPublish(t *testing.T) {
	s := newServer(t)
	s.mustCreate(full)
	d := s.established("widgets.example.com")
	p := served(d, "v1").Published
	raw, err := p.Schema()
	if err != nil || !strings.Contains(string(raw), `"enum":["Up","Down"]`) || p.PreserveUnknownFields {
		t.Errorf("published: %+v, %s, %v", p, raw, err)
	}
	if p.Fingerprint == served(d, "v1beta1").Published.Fingerprint {
		t.Error("two versions have one fingerprint")
	}
	if raw, err := rawSchema(s.crd("widgets.example.com").object, "v2"); raw != nil || err != nil {
		t.Errorf("schema of an unknown version: %s, %v", raw, err)
	}
}

func TestAccept(t *testing.T) {
	names := func(plural, singular, kind string, short ...string) apiextensionsv1.CustomResourceDefinitionNames {
		return apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: singular, Kind: kind, ListKind: kind + "List", ShortNames: short}
	}
	taken := newNameSet()
	for _, n := range []apiextensionsv1.CustomResourceDefinitionNames{names("as", "a", "A", "x"), names("bs", "b", "B")} {
		taken.add(&n)
	}
	var none apiextensionsv1.CustomResourceDefinitionNames
	for _, test := range []struct {
		name            string
		asked, granted  apiextensionsv1.CustomResourceDefinitionNames
		want            apiextensionsv1.CustomResourceDefinitionNames
		reason, message string
	}{
		{"free", names("cs", "c", "C", "y"), none, names("cs", "c", "C", "y"), "NoConflicts", "no conflicts found"},
		{"its own", names("as", "a", "A", "x"), names("as", "a", "A", "x"), names("as", "a", "A", "x"), "NoConflicts", "no conflicts found"},
		{"plural", names("as", "c", "C"), none, apiextensionsv1.CustomResourceDefinitionNames{Singular: "c", Kind: "C", ListKind: "CList"}, "PluralConflict", `"as" is already in use`},
		{"plural is a short name", names("x", "c", "C"), none, apiextensionsv1.CustomResourceDefinitionNames{Singular: "c", Kind: "C", ListKind: "CList"}, "PluralConflict", `"x" is already in use`},
		{"short names", names("cs", "c", "C", "x", "b", "y"), names("cs", "c", "C"), names("cs", "c", "C"), "ShortNamesConflict", `["x" is already in use, "b" is already in use]`},
		{"the last conflict counts", names("as", "a", "A"), none, none, "ListKindConflict", `"AList" is already in use`},
		{"fewer short names", names("as", "a", "A"), names("as", "a", "A", "x"), names("as", "a", "A"), "NoConflicts", "no conflicts found"},
	} {
		got, verdict := accept(test.asked, test.granted, taken)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: names (-want +got):\n%s", test.name, diff)
		}
		if verdict.Reason != test.reason || verdict.Message != test.message || (verdict.Status == "True") != (test.reason == "NoConflicts") {
			t.Errorf("%s: %v", test.name, verdict)
		}
	}
}

// TestPrograms checks that kinds with equal schemas share one program.
func TestPrograms(t *testing.T) {
	s := newServer(t)
	program := func(d *resource.Definition) *schema.Program {
		t.Helper()
		p, err := d.Storage.Model.(*model).program()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var definitions []*resource.Definition
	for _, text := range []string{
		simple("as", "A"), simple("bs", "B"), strings.Replace(simple("cs", "C"), "note: {type: string}", "note: {type: string, maxLength: 3}", 1),
	} {
		obj := s.mustCreate(text)
		definitions = append(definitions, s.established(obj["metadata"].(resource.Tree)["name"].(string)))
	}
	if program(definitions[0]) != program(definitions[1]) {
		t.Error("equal schemas do not share a program")
	}
	if program(definitions[0]) == program(definitions[2]) {
		t.Error("different schemas share a program")
	}
}
