package crd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// get reads a definition in a version.
func (s *server) get(name, version string) resource.Tree {
	s.t.Helper()
	r := s.request(s.store.Registry().Load().Resource(Resource), version)
	r.Name = name
	result, err := s.store.Get(context.Background(), r, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(r, result.Object)
}

// put replaces a definition, in the version of obj.
func (s *server) put(obj resource.Tree) error {
	s.t.Helper()
	data, err := object.AppendJSON(nil, obj)
	if err != nil {
		s.t.Fatal(err)
	}
	r, body := s.of(string(data))
	r.Name = obj["metadata"].(resource.Tree)["name"].(string)
	_, err = s.store.Update(context.Background(), r, body)
	return err
}

func (s *server) apply(text, manager string) error {
	s.t.Helper()
	r, body := s.of(text)
	r.Name, r.Manager = s.tree(text)["metadata"].(resource.Tree)["name"].(string), manager
	_, err := s.store.Patch(context.Background(), r, resource.Patch{Type: types.ApplyYAMLPatchType, Data: body.Data})
	return err
}

const ats = "ats.cnat.programming-kubernetes.info"

// TestServedAsBoth creates a definition in v1beta1 and reads it in both versions.
func TestServedAsBoth(t *testing.T) {
	s := newServer(t)
	s.mustCreate(testdata(t, "at-crd-printer-columns.yaml"))
	s.established(ats)
	beta, stable := s.get(ats, "v1beta1"), s.get(ats, "v1")
	spec := func(obj resource.Tree, keys ...string) any {
		v, _ := follow(obj, append([]string{"spec"}, keys...))
		return v
	}
	column := func(path string) []any {
		return []any{
			resource.Tree{"name": "schedule", "type": "string", path: ".spec.schedule"},
			resource.Tree{"name": "command", "type": "string", path: ".spec.command"},
			resource.Tree{"name": "phase", "type": "string", path: ".status.phase"},
		}
	}
	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"v1beta1 version", spec(beta, "version"), "v1alpha1"},
		{"v1beta1 versions", spec(beta, "versions"), []any{resource.Tree{"name": "v1alpha1", "served": true, "storage": true}}},
		{"v1beta1 columns", spec(beta, "additionalPrinterColumns"), column("JSONPath")},
		{"v1beta1 preserves", spec(beta, "preserveUnknownFields"), true},
		{"v1 preserves", spec(stable, "preserveUnknownFields"), true},
		{"v1 versions", spec(stable, "versions"), []any{resource.Tree{
			"name": "v1alpha1", "served": true, "storage": true, "additionalPrinterColumns": column("jsonPath"),
		}}},
		{"v1 version", spec(stable, "version"), nil},
		{"stored versions", stable["status"].(resource.Tree)["storedVersions"], []any{"v1alpha1"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	o, _ := s.store.State().Get(object.Key{Resource: Resource, Name: ats})
	if !strings.Contains(string(o.Raw), `"apiVersion":"apiextensions.k8s.io/v1",`) {
		t.Errorf("stored is not v1: %s", o.Raw)
	}

	// An object that was read in either version can be written back, and changed.
	for _, version := range []string{"v1", "v1beta1"} {
		obj := s.get(ats, version)
		before := s.crd(ats)
		if err := s.put(obj); err != nil {
			t.Fatalf("put what was read in %s: %v", version, err)
		}
		if after := s.crd(ats); after.object.Revision != before.object.Revision {
			t.Errorf("put what was read in %s: it has changed", version)
		}
		obj["spec"].(resource.Tree)["names"].(resource.Tree)["shortNames"] = []any{"in" + version}
		if err := s.put(obj); err != nil {
			t.Fatalf("put in %s: %v", version, err)
		}
		s.wait("the short name", func() bool { return slices.Contains(s.crd(ats).Status.AcceptedNames.ShortNames, "in"+version) })
	}
}

// TestReplaceManifests replaces each form in which the documents print a definition by the others,
// in both directions.
func TestReplaceManifests(t *testing.T) {
	s := newServer(t)
	files := []string{
		"at-crd.yaml", "at-crd-status.yaml", "at-crd-validation.yaml", "at-crd-schema.yaml", "at-crd-short-names.yaml",
		"at-crd-categories.yaml", "at-crd-printer-columns.yaml", "at-crd-scale.yaml", "at-crd-status-null.yaml",
	}
	s.mustCreate(testdata(t, files[0]))
	s.established(ats)
	back := slices.Clone(files)
	slices.Reverse(back)
	for _, file := range append(files, back...) {
		obj := s.tree(testdata(t, file))
		obj["metadata"].(resource.Tree)["resourceVersion"] = s.crd(ats).object.Revision.String()
		if err := s.put(obj); err != nil && !apierrors.IsConflict(err) {
			t.Errorf("replace by %s: %v", file, err)
		}
	}
	for _, file := range files {
		if err := s.apply(testdata(t, file), "manager-of-"+file); err != nil && !apierrors.IsConflict(err) {
			t.Errorf("apply %s: %v", file, err)
		}
	}
}

func TestApply(t *testing.T) {
	s := newServer(t)
	if err := s.apply(simple("widgets", "Widget", "shortNames: [a]"), "one"); err != nil {
		t.Fatal(err)
	}
	s.established("widgets.example.com")
	if err := s.apply(simple("widgets", "Widget", "shortNames: [b]"), "two"); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("apply by another manager: %v", err)
	}
	if err := s.apply(simple("widgets", "Widget", "shortNames: [c]"), "one"); err != nil {
		t.Fatal(err)
	}
	s.wait("the short name", func() bool {
		return slices.Equal(s.crd("widgets.example.com").Status.AcceptedNames.ShortNames, []string{"c"})
	})

	// The same for objects of the resource.
	if err := s.apply(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 5}}`, "one"); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 6}}`, "two"); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `conflict with "one": .spec.size`) {
		t.Errorf("apply by another manager: %v", err)
	}
}

func TestValidateKind(t *testing.T) {
	edit := func(obj resource.Tree, value any, keys ...string) {
		for _, key := range keys[:len(keys)-1] {
			obj = obj[key].(resource.Tree)
		}
		obj[keys[len(keys)-1]] = value
	}
	tests := []struct {
		name string
		edit func(obj resource.Tree)
		want []string
	}{
		{"fine", func(resource.Tree) {}, nil},
		{"name", func(obj resource.Tree) { edit(obj, "others.example.com", "metadata", "name") }, []string{
			`metadata.name: Invalid value: "others.example.com": must be spec.names.plural+"."+spec.group`,
		}},
		{"no schema", func(obj resource.Tree) {
			edit(obj, []any{resource.Tree{"name": "v1", "served": true, "storage": true}}, "spec", "versions")
		}, []string{"spec.versions[0].schema.openAPIV3Schema: Required value"}},
		{"preserve", func(obj resource.Tree) { edit(obj, true, "spec", "preserveUnknownFields") }, []string{
			"spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema",
			"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
		}},
		{"group", func(obj resource.Tree) {
			edit(obj, "example", "spec", "group")
			edit(obj, "widgets.example", "metadata", "name")
		}, []string{`spec.group: Invalid value: "example": should be a domain with at least one dot`}},
		{"approval", func(obj resource.Tree) {
			edit(obj, "example.k8s.io", "spec", "group")
			edit(obj, "widgets.example.k8s.io", "metadata", "name")
		}, []string{`metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`}},
		{"scope", func(obj resource.Tree) { edit(obj, "Galaxy", "spec", "scope") }, []string{
			`spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`,
		}},
	}
	model := Definition(true).Storage.Model
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, err := yaml.YAMLToJSON([]byte(simple("widgets", "Widget")))
			if err != nil {
				t.Fatal(err)
			}
			obj, err := model.Decode(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			test.edit(obj)
			prepareKindCreate(obj)
			var got []string
			for _, err := range model.Validate(t.Context(), obj, nil, "") {
				got = append(got, err.Error())
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
					t.Errorf("no error contains %q", want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("errors %q", got)
			}
		})
	}
}

// TestApproval checks that v1beta1 accepts definitions of protected groups without approval, and
// sets the condition.
func TestApproval(t *testing.T) {
	s := newServer(t)
	network := strings.NewReplacer("cnat.programming-kubernetes.info", "samplecrd.k8s.io").Replace(testdata(t, "at-crd.yaml"))
	s.mustCreate(network)
	s.established("ats.samplecrd.k8s.io")
	if got := conditions(s.crd("ats.samplecrd.k8s.io")); !strings.Contains(got, "KubernetesAPIApprovalPolicyConformant | False | MissingAnnotation | protected groups must have approval annotation") {
		t.Error(got)
	}
}

func TestKindCells(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget", "shortNames: [w, wd]"))
	s.established("widgets.example.com")
	v := Definition(true).Storage
	obj := s.get("widgets.example.com", "v1")
	created := obj["metadata"].(resource.Tree)["creationTimestamp"]
	want := []any{"widgets.example.com", "Namespaced", "v1(storage)", created, "example.com", "Widget", "w,wd", true}
	if diff := cmp.Diff(want, v.Cells(obj, time.Now())); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if len(v.Columns) != len(want) {
		t.Errorf("%d columns for %d cells", len(v.Columns), len(want))
	}
}

func TestSchemaWarnings(t *testing.T) {
	s := newServer(t)
	text := strings.Replace(simple("widgets", "Widget"), "note: {type: string}",
		`note: {type: string, format: nonsense}
              ports: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}`, 1)
	s.mustCreate(text)
	want := []string{
		`unrecognized format "nonsense"`,
		`x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules`,
	}
	if diff := cmp.Diff(want, s.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	s.established("widgets.example.com")
	s.warnings = nil
	obj := s.get("widgets.example.com", "v1")
	obj["metadata"].(resource.Tree)["labels"] = resource.Tree{"a": "b"}
	if err := s.put(obj); err != nil {
		t.Fatal(err)
	}
	if len(s.warnings) > 0 {
		t.Errorf("warned again: %q", s.warnings)
	}
}

// TestNotStructural checks that v1beta1 accepts a schema without types: a condition reports the
// violation, and objects are validated against it.
func TestNotStructural(t *testing.T) {
	s := newServer(t)
	s.mustCreate(strings.Replace(testdata(t, "at-crd.yaml"), "  version: v1alpha1\n", `  version: v1alpha1
  validation:
    openAPIV3Schema:
      properties:
        spec:
          required: [schedule]
          properties:
            schedule: {type: string}
`, 1))
	s.established(ats)
	if got := conditions(s.crd(ats)); !strings.Contains(got, "NonStructuralSchema | True | Violations | [spec.preserveUnknownFields: Invalid value: true: must be false, "+
		"spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields, "+
		"spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root]") {
		t.Error(got)
	}
	const at = `{apiVersion: cnat.programming-kubernetes.info/v1alpha1, kind: At, metadata: {name: a}, spec: %s}`
	if _, err := s.create(strings.Replace(at, "%s", "{schedule: 1, other: 2}", 1)); err == nil || !strings.Contains(err.Error(), `spec.schedule in body must be of type string: "integer"`) {
		t.Errorf("error: %v", err)
	}
	if _, err := s.create(strings.Replace(at, "%s", "{other: 2}", 1)); err == nil || !strings.Contains(err.Error(), `spec.schedule: Required value`) {
		t.Errorf("error: %v", err)
	}
	obj := s.mustCreate(strings.Replace(at, "%s", "{schedule: now, other: 2}", 1))
	if !object.Equal(obj["spec"], resource.Tree{"schedule": "now", "other": int64(2)}) {
		t.Errorf("created: %v", obj)
	}
}

// TestNotServed deletes a definition without served versions, and with it the objects.
func TestNotServed(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget"))
	d := s.established("widgets.example.com")
	s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}`)
	obj := s.get("widgets.example.com", "v1")
	obj["spec"].(resource.Tree)["versions"].([]any)[0].(resource.Tree)["served"] = false
	if err := s.put(obj); err != nil {
		t.Fatal(err)
	}
	s.wait("it to be no longer served", func() bool { return s.store.Registry().Load().Resource(d.GroupResource()) == nil })
	s.delete("widgets.example.com")
	s.wait("the definition to go", func() bool { return s.crd("widgets.example.com") == nil })
	if n := s.store.State().Count(d.GroupResource()); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}
