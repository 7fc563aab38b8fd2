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
		ignore     bool
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
		{name: "a missing kind that is left out", text: widget("a", "{}"), ignore: true},
		{name: "a large number", text: strings.Replace(definition, "maximum: 3", "format: int64", 1) + widget("a", "{size: 9223372036854775807}"), objects: 2},
		{name: "a namespace that does not belong", text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n", objects: 1},
		{name: "what every server has", text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n", objects: 1},
		{name: "a typed list", text: "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- 1\n", objects: 1, want: []string{"items[1] of the ConfigMapList is no object"}},
		{name: "JSON", text: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, objects: 2},
		{name: "a key twice", text: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n", want: []string{`line 5: key "name" already set in map`}},
		{name: "a name that is no string", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: on}\n", objects: 1, want: []string{"metadata.name is true"}},
		{
			name: "the line of the file, and what follows", text: "a: 1\n---\n# two\nb: [\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", objects: 1,
			want: []string{"line 4: ", "this is no manifest"},
		},
		{
			name: "webhooks", objects: 3, text: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks:\n" +
				"- {name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: \"https://127.0.0.1:1/x\"},\n" +
				"   rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}\n---\n" +
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n" +
				strings.Replace(definition, "  scope:", "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: \"https://127.0.0.1:1/x\"}}}\n  scope:", 1),
		},
		{
			name: "a webhook that is wrong", objects: 1, want: []string{"ValidatingWebhookConfiguration a: ", "sideEffects"},
			text: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks:\n" +
				"- {name: a.example.com, admissionReviewVersions: [v1], clientConfig: {url: \"https://127.0.0.1:1/x\"}}\n",
		},
		{name: "no YAML", text: "a: [\n", want: []string{"standard input: "}},
		{name: "no object", text: "a: 1\n", want: []string{"standard input: an object has no kind or no apiVersion"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings, objects, err := check.Run(t.Context(), check.Options{Files: []string{"-"}, Stdin: strings.NewReader(test.text), IgnoreMissingKinds: test.ignore})
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
	findings, objects, err := check.Run(t.Context(), check.Options{Files: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "broken.yaml")); err == nil {
		defer os.Remove(filepath.Join(dir, "broken.yaml"))
		if found, _, err := check.Run(t.Context(), check.Options{Files: []string{dir}}); err != nil || len(found) != 2 {
			t.Errorf("with a broken link it finds %+v, %v", found, err)
		}
	}
	if objects != 3 || len(findings) != 1 || findings[0].File != filepath.Join(dir, "samples", "a.yml") || len(findings[0].Causes) != 1 || findings[0].Causes[0].Field != "spec.size" {
		t.Errorf("of %d objects it finds %+v", objects, findings)
	}
	if _, _, err := check.Run(t.Context(), check.Options{Files: []string{filepath.Join(dir, "none")}}); err == nil {
		t.Error("a file that does not exist is no error")
	}
}
