package schema

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// FuzzRandom compares programs with Kubernetes on generated schemas and objects.
func FuzzRandom(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { tryRandom(t, seed, 2) })
}

// FuzzRandomRules does so for schemas with rules.
func FuzzRandomRules(f *testing.F) {
	for i := range uint64(5) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { tryRandomRules(t, seed, 2) })
}

// FuzzRules compares any rule, explanation and path with Kubernetes.
func FuzzRules(f *testing.F) {
	f.Add("self.a > 1", "'a'", ".a", `{"a":1}`)
	f.Add("self.b.all(x, x.startsWith('a'))", "string(self.a)", "['b']", `{"b":["a","b"]}`)
	f.Add("self.c['x'] == oldSelf.c['x']", "self.c['y']", ".c['x\\'y'].d", `{"c":{"x":"y"}}`)
	f.Fuzz(func(t *testing.T, rule, explanation, path, spec string) {
		s := parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: array, items: {type: string}},
			c: {type: object, additionalProperties: {type: string}}, d: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}`)
		ruled := s.Properties["spec"]
		ruled.XValidations = apiextensionsv1.ValidationRules{{Rule: rule, MessageExpression: explanation, FieldPath: path}}
		s.Properties["spec"] = ruled
		var v any
		if len(rule)+len(explanation)+len(path) > 1000 || json.Unmarshal([]byte(spec), &v) != nil {
			t.Skip()
		}
		p := mustCompile(t, s)
		j, err := newJudge(t, s, false)
		if err != nil {
			t.Skip()
		}
		obj := map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": v}
		old := clone(obj).(map[string]any)
		newGenerator(uint64(len(spec))).damage(old["spec"])
		if err := compare(p, j, obj, old); err != nil {
			t.Errorf("%v\nrule %q\nexplanation %q\npath %q\nobject %s", err, rule, explanation, path, toJSON(obj))
		}
	})
}

// FuzzProgram compares programs with Kubernetes on any schema and object.
func FuzzProgram(f *testing.F) {
	for _, e := range loadExamples(f) {
		for _, obj := range e.Objects {
			f.Add([]byte(toJSON(e.Schema)), []byte(toJSON(obj)))
		}
	}
	f.Fuzz(func(t *testing.T, schema, object []byte) {
		var s apiextensionsv1.JSONSchemaProps
		var obj map[string]any
		if len(schema) > 10_000 || json.Unmarshal(schema, &s) != nil || json.Unmarshal(object, &obj) != nil || obj == nil {
			t.Skip()
		}
		p, err := Compile(&s, false)
		if err != nil {
			t.Skip()
		}
		j, err := newJudge(t, &s, false)
		if err != nil {
			t.Skip()
		}
		old := clone(obj).(map[string]any)
		newGenerator(p.Fingerprint()).damage(old)
		if err := compare(p, j, obj, old); err != nil {
			t.Errorf("%v\nschema %s\nobject %s", err, toJSON(s), toJSON(obj))
		}
	})
}
