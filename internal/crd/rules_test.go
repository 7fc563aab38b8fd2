package crd

import (
	"errors"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gauges has rules on the whole object, on fields, on list items with keys, and on the status; and
// it has a scale subresource.
const gauges = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gauges, kind: Gauge}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations:
        - {rule: "self.metadata.name.startsWith('g')", message: must be called g}
        - {rule: "!has(self.status) || !has(self.status.replicas) || self.status.replicas <= self.spec.replicas", fieldPath: .status.replicas, reason: FieldValueForbidden, message: more than wanted}
        properties:
          spec:
            type: object
            required: [replicas]
            properties:
              replicas: {type: integer, x-kubernetes-validations: [{rule: "self % 2 == 0", messageExpression: "'odd' + (self > 1 ? ' and many' : '')"}]}
              kind: {type: string, maxLength: 10, x-kubernetes-validations: [{rule: self == oldSelf, message: is immutable}]}
              note: {type: string, x-kubernetes-validations: [{rule: "self != ''", reason: FieldValueRequired, message: say something}]}
              ports:
                type: array
                maxItems: 10
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, maxLength: 20}
                    port: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf, message: ports grow}]}
          status:
            type: object
            properties:
              replicas: {type: integer, x-kubernetes-validations: [{rule: "self >= 0", reason: FieldValueInvalid}]}
`

const gauge = `{apiVersion: example.com/v1, kind: Gauge, metadata: {name: g}, spec: {replicas: 2, kind: round, ports: [{name: a, port: 5}, {name: b, port: 7}]}}`

// causesOf formats the causes of a Status.
func causesOf(t *testing.T, err error) (causes []string) {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		t.Fatalf("not a Status: %v", err)
	}
	s := status.Status()
	if s.Code != 422 || s.Reason != metav1.StatusReasonInvalid || s.Details.Kind != "Gauge" || s.Details.Group != "example.com" {
		t.Fatalf("status %+v", s)
	}
	for _, c := range s.Details.Causes {
		causes = append(causes, string(c.Type)+"|"+c.Field+"|"+c.Message)
	}
	return causes
}

// TestRulesOfObjects violates rules with every verb that writes.
func TestRulesOfObjects(t *testing.T) {
	s := newServer(t)
	s.mustCreate(gauges)
	d := s.established("gauges.example.com")
	if len(s.warnings) > 0 {
		t.Errorf("warnings %q", s.warnings)
	}
	current := s.mustCreate(gauge)["metadata"].(resource.Tree)["resourceVersion"]
	replace := func(old, new string) func() error {
		return func() error {
			obj := s.tree(strings.Replace(gauge, old, new, 1))
			obj["metadata"].(resource.Tree)["resourceVersion"] = current
			return s.put(obj)
		}
	}
	create := func(text string) func() error {
		return func() error { _, err := s.create(text); return err }
	}
	patch := func(subresource, data string) func() error {
		return func() error { _, err := s.patch(d, "v1", subresource, "g", data); return err }
	}
	for _, test := range []struct {
		name  string
		write func() error
		want  []string
	}{
		{"create", create(`{apiVersion: example.com/v1, kind: Gauge, metadata: {name: x}, spec: {replicas: 1, note: ""}}`), []string{
			"FieldValueInvalid|<nil>|Invalid value: must be called g",
			"FieldValueRequired|spec.note|Required value: say something",
			"FieldValueInvalid|spec.replicas|Invalid value: 1: odd",
		}},
		{"create what the schema refuses", create(`{apiVersion: example.com/v1, kind: Gauge, metadata: {name: x}, spec: {}}`), []string{
			"FieldValueRequired|spec.replicas|Required value",
			"FieldValueInvalid|<nil>|Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
		}},
		{"update", replace("kind: round", "kind: square"), []string{
			"FieldValueInvalid|spec.kind|Invalid value: \"square\": is immutable",
		}},
		{"update of an item", replace("[{name: a, port: 5}, {name: b, port: 7}]", "[{name: c, port: 1}, {name: b, port: 8}, {name: a, port: 4}]"), []string{
			"FieldValueInvalid|spec.ports[2].port|Invalid value: 4: ports grow",
		}},
		{"merge patch", patch("", `{"spec":{"replicas":3}}`), []string{"FieldValueInvalid|spec.replicas|Invalid value: 3: odd and many"}},
		{"apply", func() error {
			return s.apply(`{apiVersion: example.com/v1, kind: Gauge, metadata: {name: g}, spec: {ports: [{name: new, port: 1}], note: ""}}`, "other")
		}, []string{"FieldValueRequired|spec.note|Required value: say something"}},
		{"status", patch("status", `{"status":{"replicas":4}}`), []string{"FieldValueForbidden|status.replicas|Forbidden: more than wanted"}},
		{"status below zero", patch("status", `{"status":{"replicas":-2}}`), []string{
			"FieldValueInvalid|.status.replicas|Invalid value: -2: should be a non-negative integer",
			"FieldValueInvalid|status.replicas|Invalid value: -2: failed rule: self >= 0",
		}},
		{"scale", patch("scale", `{"spec":{"replicas":5}}`), []string{"FieldValueInvalid|spec.replicas|Invalid value: 5: odd and many"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.write()
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(test.want, causesOf(t, err)); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
	for _, fine := range []func() error{
		patch("scale", `{"spec":{"replicas":6}}`), patch("status", `{"status":{"replicas":6}}`), patch("", `{"spec":{"ports":null}}`),
	} {
		if err := fine(); err != nil {
			t.Error(err)
		}
	}
}

// TestRulesRatchet makes a rule stricter than an existing object.
func TestRulesRatchet(t *testing.T) {
	s := newServer(t)
	s.mustCreate(gauges)
	d := s.established("gauges.example.com")
	s.mustCreate(gauge)
	stricter := s.tree(strings.Replace(gauges, "self % 2 == 0", "self % 3 == 0", 1))
	stricter["metadata"].(resource.Tree)["resourceVersion"] = s.crd("gauges.example.com").object.Revision.String()
	if err := s.put(stricter); err != nil {
		t.Fatal(err)
	}
	s.wait("the new rule", func() bool { return s.store.Registry().Load().Resource(d.GroupResource()) != d })
	d = s.store.Registry().Load().Resource(d.GroupResource())
	if _, err := s.patch(d, "v1", "", "g", `{"spec":{"note":"changed"}}`); err != nil {
		t.Errorf("unchanged value is rejected: %v", err)
	}
	if want := []string{"spec.replicas: Invalid value: 2: odd and many"}; !cmp.Equal(s.warnings, want) {
		t.Errorf("warnings %q, want %q", s.warnings, want)
	}
	_, err := s.create(`{apiVersion: example.com/v1, kind: Gauge, metadata: {}, spec: {replicas: 1}}`)
	if want := []string{
		"FieldValueRequired|metadata.name|Required value: name or generateName is required",
		"FieldValueInvalid|<nil>|Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
	}; err == nil || !cmp.Equal(causesOf(t, err), want) {
		t.Errorf("without a name: %v", err)
	}
	if _, err := s.patch(d, "v1", "", "g", `{"spec":{"replicas":4}}`); err == nil {
		t.Error("changed value is accepted")
	}
	var warnings []string
	m := served(d, "v1").Model.(*model)
	_, body := s.of(gauge)
	obj, err := m.Decode(body.Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := m.Decode(body.Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if errs := m.ValidateAfter(t.Context(), nil, obj, old, "", func(w string) { warnings = append(warnings, w) }); len(errs) > 0 {
		t.Error(errs)
	}
	if want := []string{"spec.replicas: Invalid value: 2: odd and many"}; !cmp.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

// TestRulesOfDefinitions checks that invalid rules are rejected when the definition is written.
func TestRulesOfDefinitions(t *testing.T) {
	const place = "spec.validation.openAPIV3Schema.properties[spec]"
	for _, test := range []struct{ name, schema, want string }{
		{"syntax", `{type: integer, x-kubernetes-validations: [{rule: "self >"}]}`, "compilation failed: ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>'"},
		{"type", `{type: integer, x-kubernetes-validations: [{rule: "self == 'a'"}]}`, "found no matching overload for '_==_' applied to '(int, string)'"},
		{"unknown field", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.b == 1}]}`, "undefined field 'b'"},
		{"no condition", `{type: integer, x-kubernetes-validations: [{rule: self + 1}]}`, "cel expression must evaluate to a bool"},
		{"empty", `{type: integer, x-kubernetes-validations: [{rule: " "}]}`, "rule is not specified"},
		{"cost of a rule", `{type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a == b))"}]}`,
			"x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"},
		{"cost of all rules", `{type: array, maxItems: 500, items: {type: string, maxLength: 10000, x-kubernetes-validations: [{rule: "self.contains('aaaaaaaaaaaaaaaaa')"}, {rule: "self.contains('abaaaaaaaaaaaaaaa')"}, {rule: "self.matches('^[a-z]{40,50}[a-z]+$')"}]}}`,
			"estimated rule cost"},
		{"message with lines", `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: "a\nb"}]}`, `x-kubernetes-validations[0].message: Invalid value: "a\nb": must not contain line breaks`},
		{"explanation of a wrong type", `{type: integer, x-kubernetes-validations: [{rule: self > 1, messageExpression: self}]}`, "messageExpression must evaluate to a string"},
		{"reason", `{type: integer, x-kubernetes-validations: [{rule: self > 1, reason: Nonsense}]}`, `reason: Unsupported value: "Nonsense"`},
		{"field path", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "true", fieldPath: .b}]}`, `fieldPath: Invalid value: ".b": must be a valid path`},
		{"old value where nothing correlates", `{type: array, maxItems: 3, items: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}}`, "oldSelf cannot be used on the uncorrelatable portion of the schema within " + place},
		{"unused optional old value", `{type: integer, x-kubernetes-validations: [{rule: self > 1, optionalOldSelf: true}]}`, "may not be set if oldSelf is not used in rule"},
		{"in an alternative", `{type: object, properties: {a: {type: integer}}, anyOf: [{x-kubernetes-validations: [{rule: "true"}]}]}`, "must be empty to be structural"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t)
			crd := simple("things", "Thing")
			crd = crd[:strings.Index(crd, "          spec:\n            type: object")] + "          spec: " + test.schema + "\n"
			_, err := s.create(crd)
			if err == nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestPathsIntoTheUnknown creates definitions with paths to fields without a schema.
func TestPathsIntoTheUnknown(t *testing.T) {
	for _, path := range []string{".a", ".a.b", ".a.b.c", "['a']['b']", ".a['b'].c"} {
		s := newServer(t)
		crd := simple("things", "Thing")
		crd = crd[:strings.Index(crd, "          spec:\n            type: object")] +
			"          spec: {type: object, additionalProperties: true, x-kubernetes-validations: [{rule: \"true\", fieldPath: \"" + path + "\"}]}\n"
		if _, err := s.create(crd); strings.Count(path, ".")+strings.Count(path, "[") > 1 && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
