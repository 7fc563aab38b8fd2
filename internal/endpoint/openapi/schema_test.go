package openapi

import (
	"encoding/json"
	"testing"
)

func TestSchemaOfCustomKind(t *testing.T) {
	for _, c := range []struct{ name, schema, three, two string }{
		{"int or string", `{"x-kubernetes-int-or-string":true}`,
			`{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
			`{"x-kubernetes-int-or-string":true}`},
		{"int or string with its own choice", `{"x-kubernetes-int-or-string":true,"anyOf":[{"pattern":"a"}]}`,
			`{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}],"anyOf":[{"pattern":"a"}],"x-kubernetes-int-or-string":true}`,
			`{"x-kubernetes-int-or-string":true}`},
		{"nullable", `{"type":"object","nullable":true,"properties":{"a":{"type":"string"}}}`,
			`{"nullable":true,"properties":{"a":{"type":"string"}},"type":"object"}`,
			`{}`},
		{"nullable field", `{"type":"object","required":["a","b"],"properties":{"a":{"type":"string","nullable":true}}}`,
			`{"properties":{"a":{"nullable":true,"type":"string"}},"required":["a","b"],"type":"object"}`,
			`{"properties":{"a":{}},"required":["b"],"type":"object"}`},
		{"unknown fields", `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}`,
			`{"properties":{"a":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
			`{"x-kubernetes-preserve-unknown-fields":true}`},
		{"default and a property of that name", `{"type":"object","default":{},"properties":{"default":{"type":"string","default":"a<b"}}}`,
			`{"default":{},"properties":{"default":{"default":"a<b","type":"string"}},"type":"object"}`,
			`{"properties":{"default":{"type":"string"}},"type":"object"}`},
		{"large numbers", `{"maximum":9007199254740993}`, `{"maximum":9007199254740993}`, `{"maximum":9007199254740993}`},
	} {
		for _, d := range []struct {
			change func(object)
			want   string
		}{{unfold, c.three}, {simplify, c.two}} {
			s, err := decodeObject([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			d.change(s)
			got, err := encode(s)
			if err != nil || string(got) != d.want {
				t.Errorf("%s: got %s, want %s, %v", c.name, got, d.want, err)
			}
		}
	}
}

// FuzzCustomSchema checks that any schema results in documents, and that making them does not
// change it.
func FuzzCustomSchema(f *testing.F) {
	f.Add([]byte(atSchema))
	f.Add([]byte(`{"properties":{"a":{"nullable":true}},"required":["a",1,null]}`))
	f.Add([]byte(`{"items":[],"properties":[],"additionalProperties":true,"allOf":{}}`))
	f.Add([]byte(`{"x-kubernetes-embedded-resource":true,"x-kubernetes-int-or-string":true,"anyOf":[1],"allOf":[null]}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		r := at("1", nil)
		r.Custom.Schema = func() ([]byte, error) { return schema, nil }
		for _, d := range []dialect{dialectTwo, dialectThree} {
			definitions, err := r.customDefinitions(d)
			if err != nil || len(definitions) != 2 {
				t.Fatalf("%d definitions, %v", len(definitions), err)
			}
			for name, raw := range definitions {
				if !json.Valid(raw) {
					t.Errorf("%s is no JSON: %s", name, raw)
				}
			}
		}
	})
}
