package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/check"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, maximum: 3}}
            x-kubernetes-validations: [{rule: "self.size != 2", message: "two is too many"}]
`

func widget(name, spec string) string {
	return "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec + "\n"
}

// TestRun checks manifests, the definition after the objects that need it.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // parts of the findings
		objects    int
	}{
		{name: "valid", text: widget("a", "{size: 1}") + "---\n" + definition, objects: 2},
		{name: "a list", text: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", objects: 1},
		{name: "nothing", text: "---\n# nothing\n", objects: 0},
		{
			name: "invalid", text: definition + widget("a", "{size: 4}") + widget("b", "{size: 2}") + widget("c", "{sise: 1, size: 1}"), objects: 4,
			want: []string{"Widget a: ", "should be less than or equal to 3", "Widget b: ", "two is too many", "Widget c: ", `unknown field "spec.sise"`},
		},
		{name: "twice", text: definition + "---\n" + definition, objects: 2, want: []string{"already exists"}},
		{name: "an unknown kind", text: widget("a", "{}"), objects: 1, want: []string{"Widget a: "}},
		{
			name: "a definition", text: strings.Replace(definition, "self.size != 2", "self.sise != 2", 1), objects: 1,
			want: []string{"CustomResourceDefinition widgets.example.com: ", "undefined field 'sise'"},
		},
		{name: "no YAML", text: "a: [\n", want: []string{"standard input: "}},
		{name: "no object", text: "a: 1\n", want: []string{"standard input: an object has no kind or no apiVersion"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings, objects, err := check.Run(t.Context(), []string{"-"}, strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, f := range findings {
				text.WriteString(f.String() + "\n")
			}
			for _, want := range test.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("it finds\n%s\nwant %q", text.String(), want)
				}
			}
			if len(test.want) == 0 && len(findings) > 0 || objects != test.objects {
				t.Errorf("of %d objects it finds\n%s", objects, text.String())
			}
		})
	}
}

// TestFiles reads a directory, and names the file of a finding.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"crd.yaml": definition, "samples/a.yml": widget("a", "{size: 9}"), "samples/b.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`,
		"kustomization.yaml": "resources: [crd.yaml]\n", "README.md": "# Not this\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	findings, objects, err := check.Run(t.Context(), []string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if objects != 3 || len(findings) != 1 || findings[0].File != filepath.Join(dir, "samples", "a.yml") || len(findings[0].Causes) != 1 || findings[0].Causes[0].Field != "spec.size" {
		t.Errorf("of %d objects it finds %+v", objects, findings)
	}
	if _, _, err := check.Run(t.Context(), []string{filepath.Join(dir, "none")}, nil); err == nil {
		t.Error("a file that does not exist is no error")
	}
}
