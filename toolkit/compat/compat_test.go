package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestSchemas checks what is reported of changes of one field, in both directions.
func TestSchemas(t *testing.T) {
	for _, c := range []struct {
		was, is     string
		there, back string // what is reported from was to is, and back
	}{
		{was: "type: string", is: "type: string"},
		{was: "type: string", is: "type: integer", there: "the type changes from string to integer", back: "the type changes from integer to string"},
		{was: "type: integer", is: "type: number", back: "the type changes from number to integer"},
		{was: "type: integer", is: "x-kubernetes-int-or-string: true", back: "the type changes from integer or string to integer"},
		{was: "type: object", is: "x-kubernetes-int-or-string: true", there: "the type changes from object to integer or string", back: "the type changes from integer or string to object"},
		{was: "type: string", is: "x-kubernetes-preserve-unknown-fields: true", back: "the type changes from any to string"},
		{was: "type: string", is: "{type: string, nullable: true}", back: "it is not nullable any more"},
		{was: "{type: string, enum: [a, b]}", is: "{type: string, enum: [b, a, c]}", back: `the enumeration has lost "c"`},
		{was: "{type: string, enum: [a]}", is: "type: string", back: `an enumeration is new: only "a"`},
		{was: "{type: object, default: {a: 1}}", is: "{type: object, default: {a: 1.0}}"},
		{was: "{type: string, default: a}", is: "{type: string, default: b}", there: `the default changes from "a" to "b"`, back: `the default changes from "b" to "a"`},
		{was: "{type: string, default: a}", is: "type: string", there: `the default "a" is gone`},
		{was: "type: string", is: "{type: string, format: uuid}", there: "the format uuid is new"},
		{was: "type: string", is: "{type: string, pattern: ^a}", there: "the pattern ^a is new"},
		{was: "{type: string, pattern: ^b}", is: "{type: string, pattern: ^a}", there: "the pattern changes from ^b to ^a", back: "the pattern changes from ^a to ^b"},
		{was: "type: integer", is: "{type: integer, minimum: 1}", there: "minimum 1 is new"},
		{was: "{type: integer, minimum: 1}", is: "{type: integer, minimum: 2}", there: "minimum grows from 1 to 2"},
		{was: "{type: integer, maximum: 2}", is: "{type: integer, maximum: 1}", there: "maximum shrinks from 2 to 1"},
		{was: "{type: integer, maximum: 2}", is: "{type: integer, maximum: 2, exclusiveMaximum: true}", there: "maximum 2 is exclusive now"},
		{was: "{type: integer, minimum: 2, exclusiveMinimum: true}", is: "{type: integer, minimum: 2}", back: "minimum 2 is exclusive now"},
		{was: "type: string", is: "{type: string, minLength: 0}"},
		{was: "type: string", is: "{type: string, maxLength: 8}", there: "maxLength 8 is new"},
		{was: "{type: string, maxLength: 9}", is: "{type: string, maxLength: 8}", there: "maxLength shrinks from 9 to 8"},
		{was: "{type: number, multipleOf: 2}", is: "type: number", back: "values must be multiples of 2 now"},
		{was: "{type: object, x-kubernetes-validations: [{rule: a, message: b}]}", is: "{type: object, x-kubernetes-validations: [{rule: a}]}"},
		{was: "type: object", is: "{type: object, x-kubernetes-validations: [{rule: self.a}]}", there: "the rule self.a is new"},
		{was: "{type: object, oneOf: [{required: [a]}]}", is: "type: object", back: "oneOf changes"},
		{was: "{type: array, items: {type: string}}", is: "{type: array, items: {type: string, minLength: 1}, maxItems: 3}", there: "maxItems 3 is new; [] minLength 1 is new"},
		{was: "{type: array, items: {type: string}}", is: "{type: array, items: {type: string}, x-kubernetes-list-type: set}", there: "the list type changes from atomic to set", back: "the list type changes from set to atomic"},
		{
			was: "{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}", is: "{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b]}",
			there: "the keys of the list change from [a] to [b]", back: "the keys of the list change from [b] to [a]",
		},
		{was: "type: object", is: "{type: object, x-kubernetes-map-type: granular}"},
		{was: "type: object", is: "{type: object, x-kubernetes-map-type: atomic}", there: "the map type changes from granular to atomic", back: "the map type changes from atomic to granular"},
		{was: "{type: object, properties: {a: {type: string}}}", is: "{type: object, properties: {b: {type: string}}}", there: ".a the field is gone: objects lose it", back: ".b the field is gone: objects lose it"},
		{was: "{type: object, properties: {a: {type: string}}}", is: "{type: object, x-kubernetes-preserve-unknown-fields: true}", back: "fields that the schema does not have are dropped now"},
		{was: "{type: object, properties: {a: {type: string}}}", is: "{type: object, additionalProperties: {type: integer}}", there: ".a the type changes from string to integer", back: "fields with any name are dropped now"},
		{was: "{type: object, additionalProperties: {type: string}}", is: "{type: object, additionalProperties: {type: string, maxLength: 1}}", there: ".* maxLength 1 is new"},
		{was: "{type: object, properties: {a: {type: string}}}", is: "{type: object, properties: {a: {type: string}}, required: [a]}", there: ".a the field is required now"},
		{was: "{type: object, properties: {a: {type: string, default: x}}}", is: "{type: object, properties: {a: {type: string, default: x}}, required: [a]}"},
	} {
		for _, way := range []struct{ from, to, want string }{{c.was, c.is, c.there}, {c.is, c.was, c.back}} {
			comparison := &comparison{}
			comparison.schemas("", parse(t, way.from), parse(t, way.to))
			var got []string
			for _, change := range comparison.found {
				got = append(got, strings.TrimSpace(change.Path+" "+change.What))
			}
			if strings.Join(got, "; ") != way.want {
				t.Errorf("from %s to %s: %q, want %q", way.from, way.to, strings.Join(got, "; "), way.want)
			}
		}
	}
}

func parse(t *testing.T, text string) *schema {
	t.Helper()
	s := &schema{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, shortNames: [w]}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: string}}}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.a, statusReplicasPath: .status.a}}
    selectableFields: [{jsonPath: .spec.b}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}}
`

// TestDefinitions checks what is reported of a definition besides its schemas.
func TestDefinitions(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{"", "", nil},
		{"scope: Namespaced", "scope: Cluster", []string{"the scope changes from Namespaced to Cluster"}},
		{"group: example.com", "group: example.org", []string{"the group changes from example.com to example.org"}},
		{"kind: Widget", "kind: Gadget", []string{"the names change from Widget (widgets) to Gadget (widgets)"}},
		{"shortNames: [w]", "shortNames: [x]", []string{"the short name w is gone"}},
		{"name: v1\n    served: true", "name: v2\n    served: true", []string{"v1: the version is gone"}},
		{"name: v1\n    served: true", "name: v1\n    served: false", []string{"v1: the version is not served any more"}},
		{"name: v1alpha1", "name: v1alpha2", nil},
		{"status: {}, ", "", []string{"v1: the subresource status is gone"}},
		{"specReplicasPath: .spec.a", "specReplicasPath: .spec.b", []string{"v1: the paths of the subresource scale change"}},
		{"jsonPath: .spec.b", "jsonPath: .spec.c", []string{"v1: the field .spec.b is not selectable any more"}},
		{"color: {type: string}", "color: {type: boolean}", []string{"v1: .spec.color: the type changes from string to boolean"}},
	} {
		before, after := define(t, widgets), define(t, strings.Replace(widgets, c.old, c.new, 1))
		var got []string
		for _, change := range Definitions(before, after) {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in place of %q: %q, want %q", c.new, c.old, got, c.want)
		}
	}
}

func define(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, err := decode([]byte(text))
	if err != nil || crd == nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return crd
}

// TestSince compares with commits.
func TestSince(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q")
	write("operator/crds/widgets.yaml", widgets)
	write("operator/crds/gadgets.yaml", strings.ReplaceAll(strings.ReplaceAll(widgets, "widget", "gadget"), "Widget", "Gadget"))
	write("operator/crds/kustomization.yaml", "resources: [widgets.yaml]\n")
	run("add", "-A")
	run("commit", "-q", "-m", "one")
	run("tag", "v1")
	t.Chdir("operator") // paths are relative to the working directory, not to the top
	if changes, err := Since(t.Context(), "v1", []string{"crds", "./crds/", "absent"}); err != nil || len(changes) > 0 {
		t.Errorf("without changes: %v, %v", changes, err)
	}
	write("crds/widgets.yaml", strings.Replace(widgets, "scope: Namespaced", "scope: Cluster", 1))
	if err := os.Remove("crds/gadgets.yaml"); err != nil {
		t.Fatal(err)
	}
	changes, err := Since(t.Context(), "v1", []string{"crds"})
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2 || len(changes["widgets.example.com"]) != 1 || changes["gadgets.example.com"][0].String() != "the definition is gone" {
		t.Errorf("the changes are %v", changes)
	}
	for _, commit := range []string{"v2", "--help", ""} {
		if _, err := Since(t.Context(), commit, []string{"crds"}); err == nil || !strings.Contains(err.Error(), "git has no commit") {
			t.Errorf("%q: %v", commit, err)
		}
	}
}
