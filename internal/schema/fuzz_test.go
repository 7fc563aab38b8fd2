package schema

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// FuzzRandom holds programs against Kubernetes on what the generator makes of a seed.
func FuzzRandom(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { tryRandom(t, seed, 2) })
}

// FuzzProgram holds programs against Kubernetes on any schema and object.
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
