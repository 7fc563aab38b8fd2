package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// example is a file in testdata: a schema from a real project, and objects.
type example struct {
	name    string
	Schema  *apiextensionsv1.JSONSchemaProps `json:"schema"`
	Objects []map[string]any                 `json:"objects"`
}

func loadExamples(t testing.TB) []example {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var examples []example
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		j, err := yaml.YAMLToJSON(b)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		e := example{name: strings.TrimSuffix(filepath.Base(f), ".yaml")}
		tree := parse(t, string(j)).(map[string]any)
		if err := yaml.UnmarshalStrict([]byte(toJSON(tree["schema"])), &e.Schema); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, obj := range tree["objects"].([]any) {
			e.Objects = append(e.Objects, obj.(map[string]any))
		}
		examples = append(examples, e)
	}
	return examples
}

func loadExample(t testing.TB, name string) example {
	t.Helper()
	for _, e := range loadExamples(t) {
		if e.name == name {
			return e
		}
	}
	t.Fatalf("no example %s", name)
	return example{}
}

func parse(t testing.TB, text string) any {
	t.Helper()
	v, err := parseJSON(&apiextensionsv1.JSON{Raw: []byte(text)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func parseSchema(t testing.TB, text string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	s := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func mustCompile(t testing.TB, s *apiextensionsv1.JSONSchemaProps) *Program {
	t.Helper()
	p, err := Compile(s, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parseYAML(t testing.TB, text string) any {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return parse(t, string(j))
}
