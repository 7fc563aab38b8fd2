package schema

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestCompileRefuses(t *testing.T) {
	for schema, want := range map[string]string{
		`{type: object, properties: {a: {$ref: x}}}`:         `compile schema: properties[a]: $ref is not supported`,
		`{type: array, items: {patternProperties: {a: {}}}}`: `compile schema: items: patternProperties is not supported`,
		`{type: object, additionalProperties: {id: x}}`:      `compile schema: additionalProperties: id is not supported`,
		`{allOf: [{definitions: {a: {}}}]}`:                  `compile schema: definitions is not supported`,
		`{anyOf: [{dependencies: {a: [b]}}]}`:                `compile schema: dependencies is not supported`,
		`{oneOf: [{additionalItems: true}]}`:                 `compile schema: additionalItems is not supported`,
		`{not: {items: [{}]}}`:                               `compile schema: a list of schemas as items is not supported`,
		`{x-kubernetes-preserve-unknown-fields: false}`:      `compile schema: x-kubernetes-preserve-unknown-fields: false is not supported`,
		`{type: string, default: x}`:                         `compile schema: the default of the root must be an object`,
	} {
		if _, err := Compile(parseSchema(t, schema), false); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", schema, err, want)
		}
		if _, err := newJudge(t, parseSchema(t, schema), false); err == nil {
			t.Errorf("%s: the judge accepts it", schema)
		}
	}
	for _, s := range []apiextensionsv1.JSONSchemaProps{
		{Default: &apiextensionsv1.JSON{Raw: []byte("{")}},
		{Enum: []apiextensionsv1.JSON{{Raw: []byte("{")}}},
	} {
		if _, err := Compile(&s, false); err == nil {
			t.Errorf("%s: no error", toJSON(s))
		}
	}
}

// TestFingerprint checks that a fingerprint depends on everything that matters and nothing else,
// and that it is stable.
func TestFingerprint(t *testing.T) {
	const base = `{type: object, description: %s, properties: {a: {type: string}, b: {type: array, items: {type: integer}}}}`
	p := mustCompile(t, parseSchema(t, fmt.Sprintf(base, "one")))
	if q := mustCompile(t, parseSchema(t, fmt.Sprintf(base, "two"))); p.Fingerprint() != q.Fingerprint() {
		t.Error("descriptions change the fingerprint")
	}
	seen := map[uint64]string{}
	add := func(name string, p *Program) {
		if other, found := seen[p.Fingerprint()]; found {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[p.Fingerprint()] = name
	}
	add("base", p)
	kept, err := Compile(parseSchema(t, fmt.Sprintf(base, "one")), true)
	if err != nil {
		t.Fatal(err)
	}
	add("preserved", kept)
	empty, err := Compile(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	add("none", empty)
	for _, change := range []string{
		``, `type: string`, `type: integer`, `type: integer, format: int32`, `type: integer, format: int64`, `nullable: true`,
		`x-kubernetes-embedded-resource: true`, `x-kubernetes-int-or-string: true`, `x-kubernetes-preserve-unknown-fields: true`,
		`uniqueItems: true`, `maximum: 1`, `maximum: 1, exclusiveMaximum: true`, `minimum: 1`, `minimum: 1, exclusiveMinimum: true`,
		`multipleOf: 1`, `maxLength: 1`, `minLength: 1`, `maxItems: 1`, `minItems: 1`, `maxProperties: 1`, `minProperties: 1`,
		`pattern: a`, `required: [a]`, `required: [a, b]`, `required: [ab]`, `enum: [a]`, `enum: [a, b]`, `enum: [[a, b]]`, `default: a`,
		`allOf: [{type: string}]`, `anyOf: [{type: string}]`, `oneOf: [{type: string}]`, `not: {type: string}`,
		`anyOf: [{type: string}, {}]`, `additionalProperties: true`, `additionalProperties: false`, `additionalProperties: {type: string}`,
		`items: {type: string}`, `items: {}`, `properties: {a: {}}`, `properties: {b: {}}`, `properties: {a: {properties: {b: {}}}}`,
		`properties: {a: {}, b: {}}`, `x-kubernetes-list-type: set`, `x-kubernetes-list-type: map`,
		`x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]`, `x-kubernetes-map-type: atomic`,
		`x-kubernetes-validations: [{rule: a}]`, `x-kubernetes-validations: [{rule: a, message: b}]`,
		`x-kubernetes-validations: [{rule: a, reason: FieldValueInvalid}]`, `x-kubernetes-validations: [{rule: a, optionalOldSelf: true}]`,
	} {
		add(change, mustCompile(t, parseSchema(t, fmt.Sprintf(`{type: object, properties: {spec: {%s}}}`, change))))
	}
	if got, want := p.Fingerprint(), uint64(0xa1182fbf25eaeb77); got != want {
		t.Errorf("the fingerprint is %#x, want %#x: data that is stored by fingerprint would be lost", got, want)
	}
}

// TestProgramIsSmall limits the memory of a definition of 150 fields.
func TestProgramIsSmall(t *testing.T) {
	if got := retained(t, wide(), 100); got > 50_000 {
		t.Errorf("a program retains %d bytes", got)
	}
}

// TestConcurrentUse uses a pattern for the first time in many goroutines; it is for the race
// detector.
func TestConcurrentUse(t *testing.T) {
	e := loadExample(t, "webservice")
	p := mustCompile(t, e.Schema)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, obj := range e.Objects {
				obj := clone(obj).(map[string]any)
				if err := p.Normalise(obj, nil); err != nil {
					t.Error(err)
				}
				p.ValidateUpdate(context.Background(), obj, obj)
			}
		})
	}
	wg.Wait()
}
