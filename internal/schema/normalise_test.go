package schema

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestNormalise(t *testing.T) {
	const (
		plain    = `{type: object, properties: {spec: {type: object, properties: {a: {type: string}, b: {type: object, properties: {c: {type: string}}}}}}}`
		defaults = `{type: object, properties: {spec: {type: object, default: {a: x}, properties: {
			a: {type: string}, b: {type: string, default: why}, c: {type: integer, nullable: true, default: 3},
			d: {type: object, properties: {e: {type: boolean, default: true}}}}}}}`
	)
	tests := []struct {
		name, schema, obj, want string
		unknown                 []string
	}{
		{"unknown fields", plain, `{"spec": {"a": "x", "z": {"a": 1}, "b": {"c": "x", "a": 1}}, "extra": 1}`,
			`{"spec": {"a": "x", "b": {"c": "x"}}}`, []string{"extra", "spec.b.a", "spec.z"}},
		{"meta fields", plain, `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "what": 1}, "spec": {"kind": "B"}}`,
			`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "what": 1}, "spec": {}}`, []string{"spec.kind"}},
		{"lists", `{type: object, properties: {spec: {type: array, items: {type: object, properties: {a: {type: string}}}}}}`,
			`{"spec": [{"a": ""}, {"bar": 1}, "text", null]}`, `{"spec": [{"a": ""}, {}, "text", null]}`, []string{"spec[1].bar"}},
		{"lists of lists", `{type: object, properties: {spec: {type: array, items: {type: array, items: {type: object}}}}}`,
			`{"spec": [[{"a": 1}]]}`, `{"spec": [[{}]]}`, []string{"spec[0][0].a"}},
		{"maps", `{type: object, properties: {spec: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}}}`,
			`{"spec": {"x": {"a": "", "b": ""}, "y": {}}}`, `{"spec": {"x": {"a": ""}, "y": {}}}`, []string{"spec.x.b"}},
		{"additionalProperties: true keeps the surface", `{type: object, properties: {spec: {type: object, additionalProperties: true}}}`,
			`{"spec": {"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}}`, `{"spec": {"a": 1, "b": {}, "d": [{}]}}`, []string{"spec.b.c", "spec.d[0].e"}},
		{"kept", `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, properties: {b: {type: string}}}}}}}`,
			`{"spec": {"x": {"y": 1}, "a": {"b": "", "c": 1}}}`, `{"spec": {"x": {"y": 1}, "a": {"b": ""}}}`, []string{"spec.a.c"}},
		{"items inherit", `{type: object, properties: {spec: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {a: {type: object}}}}}}`,
			`{"spec": [{"x": 1, "a": {"x": 1}}]}`, `{"spec": [{"x": 1, "a": {}}]}`, []string{"spec[0].a.x"}},
		{"everything is kept", `{type: object, x-kubernetes-preserve-unknown-fields: true}`, `{"a": {"b": 1}}`, `{"a": {"b": 1}}`, nil},

		{"defaults", defaults, `{}`, `{"spec": {"a": "x", "b": "why", "c": 3}}`, nil},
		{"nested defaults", defaults, `{"spec": {"d": {}}}`, `{"spec": {"b": "why", "c": 3, "d": {"e": true}}}`, nil},
		{"null becomes the default", defaults, `{"spec": {"b": null}}`, `{"spec": {"b": "why", "c": 3}}`, nil},
		{"null that is allowed stays", defaults, `{"spec": {"c": null}}`, `{"spec": {"b": "why", "c": null}}`, nil},
		{"null without default goes", defaults, `{"spec": {"a": null, "d": null}}`, `{"spec": {"b": "why", "c": 3}}`, nil},
		{"null item becomes the default", `{type: object, properties: {spec: {type: array, items: {type: integer, default: 1}}}}`,
			`{"spec": [null, 2]}`, `{"spec": [1, 2]}`, nil},
		{"null item without default stays", `{type: object, properties: {spec: {type: array, items: {type: integer}}}}`,
			`{"spec": [null]}`, `{"spec": [null]}`, nil},
		{"null property becomes the default", `{type: object, properties: {spec: {type: object, additionalProperties: {type: integer, default: 1}}}}`,
			`{"spec": {"a": null}}`, `{"spec": {"a": 1}}`, nil},
		{"defaults are pruned", `{type: object, properties: {spec: {type: object, default: {a: x, b: x}, properties: {a: {type: string}}}}}`,
			`{}`, `{"spec": {"a": "x"}}`, nil},

		{"embedded", `{type: object, properties: {spec: {type: object, x-kubernetes-embedded-resource: true, properties: {data: {type: object}, size: {type: integer, default: 1}}}}}`,
			`{"spec": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "what": 1, "creationTimestamp": null}, "data": {"a": 1}}}`,
			`{"spec": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "data": {}, "size": 1}}`,
			[]string{"spec.data.a", "spec.metadata.what"}},
		{"embedded in a map", `{type: object, properties: {spec: {type: object, additionalProperties: {type: object, x-kubernetes-embedded-resource: true}}}}`,
			`{"spec": {"a": {"metadata": {"labels": {"a": "b"}, "ownerReferences": [{"what": 1}]}}}}`,
			`{"spec": {"a": {"metadata": {"labels": {"a": "b"}, "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}}}}`,
			[]string{"spec[a].metadata.ownerReferences[0].what"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := parseSchema(t, test.schema)
			p := mustCompile(t, s)
			obj := parse(t, test.obj).(map[string]any)
			var unknown []string
			if err := p.Normalise(obj, &unknown); err != nil {
				t.Fatal(err)
			}
			if want := parse(t, test.want); !object.Equal(obj, want) {
				t.Errorf("\n got %s\nwant %s", toJSON(obj), toJSON(want))
			}
			if !slices.Equal(unknown, test.unknown) {
				t.Errorf("unknown fields\n got %q\nwant %q", unknown, test.unknown)
			}
			again := clone(obj).(map[string]any)
			if err := p.Normalise(again, nil); err != nil || !object.Equal(obj, again) {
				t.Errorf("after a second normalisation: %s, %v", toJSON(again), err)
			}
			j, err := newJudge(t, s, false)
			if err != nil {
				t.Fatal(err)
			}
			judged := parse(t, test.obj).(map[string]any)
			if _, err := j.normalise(judged, true); err != nil || !object.Equal(obj, judged) {
				t.Errorf("the judge returns %s, %v", toJSON(judged), err)
			}
		})
	}
}

func TestNormaliseRefuses(t *testing.T) {
	p := mustCompile(t, parseSchema(t, `{type: object, properties: {spec: {type: array, items:
		{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}`))
	for obj, want := range map[string]string{
		`{"spec": [{}, {"kind": 1}]}`:                   `spec[1].kind: Invalid value: 1: must be a string`,
		`{"spec": [{"metadata": {"name": 1}}]}`:         `spec[0].metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string`,
		`{"spec": [{"kind": "A", "apiVersion": null}]}`: `spec[0].apiVersion: Invalid value: null: must be a string`,
	} {
		err := p.Normalise(parse(t, obj).(map[string]any), nil)
		var fieldErr *field.Error
		if !errors.As(err, &fieldErr) || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", obj, err, want)
		}
	}
	stored := parse(t, `{"spec": [{"kind": 1, "metadata": {"name": "a", "labels": 1, "what": 1}}]}`).(map[string]any)
	p.CoerceStored(stored)
	if want := parse(t, `{"spec": [{"metadata": {"name": "a"}}]}`); !object.Equal(stored, want) {
		t.Errorf("stored: got %s", toJSON(stored))
	}
}

// TestPreserve checks that objects without a schema, or of definitions that preserve unknown
// fields, do not change.
func TestPreserve(t *testing.T) {
	const text = `{"apiVersion": "v1", "spec": {"a": null, "b": [{"c": 1}]}, "extra": null}`
	obj := parse(t, text).(map[string]any)
	for name, compile := range map[string]func() (*Program, error){
		"no schema": func() (*Program, error) { return Compile(nil, false) },
		"preserved": func() (*Program, error) {
			return Compile(parseSchema(t, `{type: object, properties: {spec: {type: object}}}`), true)
		},
	} {
		p, err := compile()
		if err != nil {
			t.Fatal(err)
		}
		var unknown []string
		if err := p.Normalise(obj, &unknown); err != nil || len(unknown) > 0 || !object.Equal(obj, parse(t, text)) {
			t.Errorf("%s: got %s, unknown %q, %v", name, toJSON(obj), unknown, err)
		}
		if errs := p.Validate(context.Background(), obj); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestDefaultsAreCopies checks that objects do not share memory with a program.
func TestDefaultsAreCopies(t *testing.T) {
	p := mustCompile(t, parseSchema(t, `{type: object, properties: {spec: {type: object, default: {a: {b: [1]}}, x-kubernetes-preserve-unknown-fields: true}}}`))
	first, second := map[string]any{}, map[string]any{}
	p.Default(first)
	first["spec"].(map[string]any)["a"].(map[string]any)["b"].([]any)[0] = "changed"
	p.Default(second)
	if want := parse(t, `{"spec": {"a": {"b": [1]}}}`); !object.Equal(second, want) {
		t.Errorf("got %s", toJSON(second))
	}
}
