package derive

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestItemsDiffer checks samples of sets, and of maps by keys, that have at least two items.
func TestItemsDiffer(t *testing.T) {
	for name, test := range map[string]struct{ schema, want string }{
		"set of texts":       {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string, maxLength: 4}}", "\n- \"text\"\n- \"tex2\"\n"},
		"set of an enum":     {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string, enum: [a, b]}}", "\n- \"a\"\n- \"b\"\n"},
		"set of integers":    {"{type: array, minItems: 3, x-kubernetes-list-type: set, items: {type: integer, minimum: 5}}", "\n- 5\n- 6\n- 7\n"},
		"set of int32":       {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: integer, format: int32, multipleOf: 4}}", "\n- 4\n- 8\n"},
		"set of short texts": {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string, maxLength: 1}}", "\n- \"t\"\n- \"2\"\n"},
		"set by a pattern":   {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string, pattern: '^[a-z]+[0-9]?$'}}", "\n- \"text\"\n- \"text2\"\n"},
		"set of addresses":   {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: string, format: ipv4}}", "\n- \"192.0.2.1\"\n- \"192.0.2.12\"\n"},
		"set of booleans":    {"{type: array, minItems: 2, x-kubernetes-list-type: set, items: {type: boolean}}", "\n- true\n- false\n"},
		"map by two keys": {
			"{type: array, minItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: integer, maximum: 1}, b: {type: string}}}}",
			"\n-\n  # maximum: 1\n  a: 1\n  b: \"text\"\n-\n  # maximum: 1\n  a: 1\n  b: \"text2\"\n",
		},
		"list": {"{type: array, minItems: 2, items: {type: string}}", "\n- \"text\"\n- \"text\"\n"},
		"map": {
			"{type: array, minItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port], items: {type: object, properties: {port: {type: integer}}}}",
			"\n-\n  port: 1\n-\n  port: 2\n",
		},
	} {
		var s schema
		if err := yaml.Unmarshal([]byte(test.schema), &s); err != nil {
			t.Fatal(err)
		}
		w := &sampleWriter{}
		w.value("", &s)
		if got := w.String(); got != test.want {
			t.Errorf("%s:%s\nwant:%s", name, got, test.want)
		}
	}
}
