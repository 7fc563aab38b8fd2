package schema

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestMessages checks the messages for users, in Kubernetes' words, and the order of several
// errors.
func TestMessages(t *testing.T) {
	tests := []struct {
		name   string
		schema string // schema of spec
		spec   string
		want   []string
	}{
		{"valid", `{type: string}`, `"a"`, nil},
		{"wrong type", `{type: object}`, `[]`, []string{
			`spec: Invalid value: "array": spec in body must be of type object: "array"`}},
		{"null", `{type: string}`, `null`, []string{
			`spec: Invalid value: "null": spec in body must be of type string: "null"`}},
		{"nullable", `{type: string, nullable: true}`, `null`, nil},
		{"null is in no enum", `{type: string, nullable: true, enum: [a, null]}`, `null`, []string{
			`spec: Unsupported value: null: supported values: "a", "null"`}},
		{"untyped null", `{x-kubernetes-preserve-unknown-fields: true}`, `null`, nil},
		{"whole float as integer", `{type: integer}`, `1.0`, nil},
		{"integer as number", `{type: number}`, `1`, nil},
		{"fraction as integer", `{type: integer}`, `1.5`, []string{
			`spec: Invalid value: "number": spec in body must be of type integer: "number"`,
			`<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec`}},
		{"int32", `{type: integer, format: int32}`, `3000000000`, []string{
			`<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec`}},
		{"float", `{type: number, format: float}`, `1e300`, []string{
			`<nil>: Invalid value: "": Checked value must be of type number with format float in spec`}},
		{"format instead of type", `{type: integer, format: int32}`, `true`, []string{
			`spec: Invalid value: "": spec in body must be of type int32: ""`}},
		{"format excuses a list", `{type: string, format: date}`, `[]`, nil},
		{"int or string", `{x-kubernetes-int-or-string: true}`, `1.5`, []string{
			`spec: Invalid value: "number": spec in body must be of type integer,string: "number"`}},
		{"format", `{type: string, format: date-time}`, `"2020-02-30T00:00:00Z"`, []string{
			`spec: Invalid value: "2020-02-30T00:00:00Z": spec in body must be of type date-time: "2020-02-30T00:00:00Z"`}},
		{"unknown format", `{type: string, format: nonsense}`, `"x"`, nil},
		{"pattern", `{type: string, pattern: '^\d{4}$'}`, `"no"`, []string{
			`spec: Invalid value: "no": spec in body should match '^\d{4}$'`}},
		{"broken pattern", `{type: string, pattern: '('}`, `"no"`, []string{
			"spec: Invalid value: \"no\": spec in body should match '(, but pattern is invalid: error parsing regexp: missing closing ): `(`'"}},
		{"too long", `{type: string, maxLength: 1}`, `"éé"`, []string{`spec: Too long: may not be more than 1 byte`}},
		{"long enough in characters", `{type: string, maxLength: 2}`, `"éé"`, nil},
		{"too short", `{type: string, minLength: 2, pattern: b}`, `"é"`, []string{
			`spec: Invalid value: "é": spec in body should be at least 2 chars long`}},
		{"enum", `{type: string, enum: [a, "1"]}`, `"b"`, []string{`spec: Unsupported value: "b": supported values: "a", "1"`}},
		{"enum of numbers", `{type: number, enum: [1, 0.5, null]}`, `2`, []string{
			`spec: Unsupported value: 2: supported values: "1", "0.5", "null"`}},
		{"enum cuts down", `{type: number, enum: [1]}`, `1.5`, nil},
		{"enum of objects", `{type: object, x-kubernetes-preserve-unknown-fields: true, enum: [{a: 1}]}`, `{"a": 1}`, nil},
		{"maximum", `{type: integer, maximum: 3}`, `4`, []string{
			`spec: Invalid value: 4: spec in body should be less than or equal to 3`}},
		{"exclusive maximum", `{type: number, maximum: 3, exclusiveMaximum: true}`, `3.0`, []string{
			`spec: Invalid value: 3: spec in body should be less than 3`}},
		{"minimum", `{type: number, minimum: 0.5}`, `0.25`, []string{
			`spec: Invalid value: 0.25: spec in body should be greater than or equal to 0.5`}},
		{"exclusive minimum", `{type: integer, minimum: 0, exclusiveMinimum: true}`, `0`, []string{
			`spec: Invalid value: 0: spec in body should be greater than 0`}},
		{"bound out of range", `{type: integer, maximum: 1.5}`, `2`, []string{
			`<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in spec`,
			`spec: Invalid value: 2: spec in body should be less than or equal to 1.5`}},
		{"multiple", `{type: integer, multipleOf: 5}`, `7`, []string{
			`spec: Invalid value: 7: spec in body should be a multiple of 5`}},
		{"multiple of a fraction", `{type: number, multipleOf: 0.1}`, `0.3`, nil},
		{"integer, multiple of a fraction", `{type: number, multipleOf: 0.5}`, `1`, []string{
			`spec: Invalid value: 0: factor MultipleOf declared for spec must be positive: 0`}},
		{"items", `{type: array, items: {type: string}, minItems: 3}`, `["a", 1]`, []string{
			`spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer"`,
			`spec: Invalid value: 2: spec in body should have at least 3 items`}},
		{"too many items", `{type: array, items: {type: string}, maxItems: 1}`, `["a", "a"]`, []string{
			`spec: Too many: 2: must have at most 1 item`}},
		{"unique items", `{type: array, items: {type: string}, uniqueItems: true}`, `["a", "a"]`, []string{
			`spec: Invalid value: "": spec in body shouldn't contain duplicates`}},
		{"required", `{type: object, required: [b, a], properties: {a: {type: string}, b: {type: string}}}`, `{}`, []string{
			`spec.b: Required value`, `spec.a: Required value`}},
		{"properties", `{type: object, minProperties: 2, additionalProperties: {type: string}}`, `{"a.b": 1}`, []string{
			`spec: Invalid value: 1: spec in body should have at least 2 properties`,
			`spec.a.b: Invalid value: "integer": spec.a.b in body must be of type string: "integer"`}},
		{"too many properties", `{type: object, maxProperties: 1, additionalProperties: {type: string}}`, `{"a": "", "b": ""}`, []string{
			`spec: Too many: 2: must have at most 1 item`}},
		{"forbidden", `{type: object, additionalProperties: false, properties: {a: {type: string}}}`, `{"b": "", "a": ""}`, []string{
			`spec: Invalid value: "b": spec.b in body is a forbidden property`}},
		{"any of", `{type: string, anyOf: [{minLength: 3}, {pattern: x, format: date}]}`, `"a"`, []string{
			`<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)`,
			`spec: Invalid value: "a": spec in body should match 'x'`,
			`spec: Invalid value: "a": spec in body must be of type date: "a"`}},
		{"one of none", `{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}`, `{}`, []string{
			`<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid`,
			`spec.a: Required value`}},
		{"one of two", `{type: string, oneOf: [{maxLength: 3}, {maxLength: 4}]}`, `"a"`, []string{
			`<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives`}},
		{"all of", `{type: string, allOf: [{minLength: 3}, {maxLength: 4}]}`, `"a"`, []string{
			`spec: Invalid value: "a": spec in body should be at least 3 chars long`,
			`<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)`}},
		{"all of none", `{type: string, allOf: [{minLength: 3}]}`, `"a"`, []string{
			`spec: Invalid value: "a": spec in body should be at least 3 chars long`,
			`<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated`}},
		{"not", `{type: string, not: {enum: [a]}}`, `"a"`, []string{
			`<nil>: Invalid value: "": "spec" must not validate the schema (not)`}},
		{"set", `{type: array, items: {type: string}, x-kubernetes-list-type: set}`, `["a", "b", "a", "a"]`, []string{
			`spec[2]: Duplicate value: "a"`}},
		{"map", `{type: array, items: {type: object, properties: {k: {type: integer}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]}`,
			`[{"k": 1}, {}, {"k": 1}, {}]`, []string{
				`spec[2]: Duplicate value: {"k":1}`, `spec[3]: Duplicate value: {}`}},
		{"map of two keys", `{type: array, items: {type: object, properties: {k: {type: integer}, l: {type: string}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l]}`,
			`[{"k": 1, "l": "a"}, {"k": 1, "l": "b"}, {"l": "a", "k": 1, "m": 2}]`, []string{
				`spec[2]: Duplicate value: {"k":1,"l":"a"}`}},
		{"embedded", `{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}`,
			`{"kind": "", "metadata": {"name": "a/b"}}`, []string{
				`spec.apiVersion: Required value`, `spec.kind: Invalid value: "": must not be empty`,
				`spec.metadata.name: Invalid value: "a/b": may not contain '/'`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := parseSchema(t, fmt.Sprintf(`{type: object, properties: {spec: %s}}`, test.schema))
			obj := map[string]any{"spec": parse(t, test.spec)}
			var got []string
			for _, err := range mustCompile(t, s).Validate(t.Context(), obj) {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("\n got %q\nwant %q", got, test.want)
			}
			j, err := newJudge(t, s, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := compareErrors("judge", mustCompile(t, s).Validate(t.Context(), obj), j.validate(obj)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUpdate checks which errors an update may keep.
func TestUpdate(t *testing.T) {
	s := parseSchema(t, `{type: object, required: [must], properties: {
		spec: {type: object, properties: {
			name: {type: string, maxLength: 1},
			size: {type: integer, anyOf: [{maximum: 1}, {minimum: 10}]},
			list: {type: array, items: {type: string, maxLength: 1}},
			set: {type: array, items: {type: string}, x-kubernetes-list-type: set},
			map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {
				k: {type: string}, v: {type: string, maxLength: 1}, w: {type: string, maxLength: 1}}}}}},
		status: {type: object, required: [phase], properties: {phase: {type: string, maxLength: 1}, other: {type: string}}}}}`)
	p := mustCompile(t, s)
	j, err := newJudge(t, s, false)
	if err != nil {
		t.Fatal(err)
	}
	tooLong := func(at string) string { return at + ": Too long: may not be more than 1 byte" }
	tests := []struct {
		name, old, obj string
		want, status   []string
	}{
		{"unchanged", `{"must": 1, "spec": {"name": "long"}}`, `{"must": 1, "spec": {"name": "long"}}`, nil, nil},
		{"sibling changes", `{"must": 1, "spec": {"name": "long"}}`, `{"must": 1, "spec": {"name": "long", "size": 1}}`, nil, nil},
		{"changes", `{"must": 1, "spec": {"name": "long"}}`, `{"must": 1, "spec": {"name": "longer"}}`,
			[]string{tooLong("spec.name")}, nil},
		{"is new", `{"must": 1, "spec": {}}`, `{"must": 1, "spec": {"name": "long"}}`, []string{tooLong("spec.name")}, nil},
		{"alternatives", `{"must": 1, "spec": {"size": 5}}`, `{"must": 1, "spec": {"size": 5, "name": ""}}`, nil, nil},
		{"items of other lists", `{"must": 1, "spec": {"list": ["long"]}}`, `{"must": 1, "spec": {"list": ["long", "a"]}}`,
			[]string{tooLong("spec.list[0]")}, nil},
		{"other lists", `{"must": 1, "spec": {"list": ["long"]}}`, `{"must": 1, "spec": {"list": ["long"], "name": ""}}`, nil, nil},
		{"items of maps", `{"must": 1, "spec": {"map": [{"k": "a", "v": "long"}]}}`,
			`{"must": 1, "spec": {"map": [{"k": "b", "v": "long"}, {"k": "a", "v": "long", "w": "long"}]}}`,
			[]string{tooLong("spec.map[0].v"), tooLong("spec.map[1].w")}, nil},
		{"old duplicates", `{"must": 1, "spec": {"set": ["a", "a"]}}`, `{"must": 1, "spec": {"set": ["a", "b", "b"]}}`, nil, nil},
		{"new duplicates", `{"must": 1, "spec": {"set": ["a"]}}`, `{"must": 1, "spec": {"set": ["a", "b", "b"]}}`,
			[]string{`spec.set[2]: Duplicate value: "b"`}, []string{`spec.set[2]: Duplicate value: "b"`}},
		{"root", `{"spec": {}}`, `{"spec": {}}`, nil, nil},
		{"unspecified is changed", `{"metadata": {"name": "a"}}`, `{"metadata": {"name": "a"}}`, []string{"must: Required value"}, nil},
		{"status", `{"must": 1, "status": {"phase": "a"}}`, `{"status": {"other": "", "phase": "long"}}`,
			[]string{tooLong("status.phase"), "must: Required value"}, []string{tooLong("status.phase")}},
		{"new status", `{"must": 1}`, `{"must": 1, "status": {}}`, []string{"status.phase: Required value"},
			[]string{"status.phase: Required value"}},
		{"null status", `{"must": 1}`, `{"must": 1, "status": null}`,
			[]string{`status: Invalid value: "null": status in body must be of type object: "null"`}, nil},
		{"no status", `{"must": 1, "status": {}}`, `{"must": 1}`, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			obj, old := parse(t, test.obj).(map[string]any), parse(t, test.old).(map[string]any)
			check := func(what string, got []string, want []string) {
				if !slices.Equal(got, want) {
					t.Errorf("%s\n got %q\nwant %q", what, got, want)
				}
			}
			var update, status []string
			for _, err := range p.ValidateUpdate(context.Background(), obj, old) {
				update = append(update, err.Error())
			}
			for _, err := range p.ValidateStatus(context.Background(), obj, old) {
				status = append(status, err.Error())
			}
			check("update", update, test.want)
			check("status", status, test.status)
			if err := compareErrors("judge of updates", p.ValidateUpdate(context.Background(), obj, old), j.validateUpdate(obj, old)); err != nil {
				t.Error(err)
			}
			if err := compareErrors("judge of status", p.ValidateStatus(context.Background(), obj, old), j.validateStatus(obj, old)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLongLists checks for duplicates in lists that are too long for comparing all pairs of items.
func TestLongLists(t *testing.T) {
	for _, text := range []string{
		`{type: array, items: {type: integer}, x-kubernetes-list-type: set}`,
		`{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`,
		`{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b]}`,
	} {
		s := parseSchema(t, `{type: object, properties: {spec: `+text+`}}`)
		list := make([]any, 100)
		for i := range list {
			v := int64(i)
			if i == 70 || i == 80 || i == 90 {
				v = 50
			}
			list[i] = v
			if s.Properties["spec"].Items.Schema.Type == "object" {
				list[i] = map[string]any{"a": v, "b": "x"}
			}
		}
		obj := map[string]any{"spec": list}
		j, err := newJudge(t, s, false)
		if err != nil {
			t.Fatal(err)
		}
		errs := mustCompile(t, s).Validate(t.Context(), obj)
		if len(errs) != 1 || errs[0].Field != "spec[70]" {
			t.Errorf("%s: %v", text, errs)
		}
		if err := compareErrors("judge", errs, j.validate(obj)); err != nil {
			t.Error(err)
		}
	}
}

// TestVerdictIsFree checks that the validation of valid objects does not allocate.
func TestVerdictIsFree(t *testing.T) {
	p := mustCompile(t, loadExample(t, "at").Schema)
	obj := loadExample(t, "at").Objects[0]
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Normalise(obj, nil); err != nil {
			t.Fatal(err)
		}
		if errs := p.Validate(context.Background(), obj); len(errs) > 0 {
			t.Fatal(errs)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
