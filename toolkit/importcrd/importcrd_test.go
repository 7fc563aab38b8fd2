package importcrd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/importcrd"

	"sigs.k8s.io/yaml"
)

// inModule makes a module the working directory.
func inModule(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "") // those of a user
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // builds are shared, results of generators are not
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	run(t, "go", "mod", "init", "example.com/operator")
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// absolute returns the path of a file beside this one, before the working directory changes.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files returns the files below the working directory with their contents.
func files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestImport checks the types for a definition with everything that has a Go type of its own, and
// that a second import changes nothing.
func TestImport(t *testing.T) {
	from, golden := absolute(t, "testdata/widgets.yaml"), absolute(t, "testdata/widget_types.go.golden")
	inModule(t)
	result, err := importcrd.Run(t.Context(), importcrd.Options{Files: []string{filepath.Dir(from)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, differences := range result.Differences {
		t.Errorf("%s: %s", name, strings.Join(differences, "\n"))
	}
	want := []string{
		"apis/example.com/v1/groupversion_info.go", "apis/example.com/v1/unknown.go",
		"apis/example.com/v1/widget_types.go", "apis/example.com/v1/zz_generated.deepcopy.go",
		"apis/example.com/v1alpha1/groupversion_info.go", "apis/example.com/v1alpha1/unknown.go",
		"apis/example.com/v1alpha1/widget_types.go", "apis/example.com/v1alpha1/zz_generated.deepcopy.go",
	}
	if !slices.Equal(result.Written, want) {
		t.Errorf("written: %q", result.Written)
	}
	if got := read(t, "apis/example.com/v1/widget_types.go"); got != read(t, golden) {
		t.Errorf("the types differ from testdata/widget_types.go.golden:\n%s", got)
	}
	run(t, "go", "vet", "./...")

	again, err := importcrd.Run(t.Context(), importcrd.Options{Files: []string{from}})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Written) > 0 {
		t.Errorf("the second import has written %q", again.Written)
	}
}

// TestImportFromServer reads the definitions of a server, in place of which a handler answers.
func TestImportFromServer(t *testing.T) {
	document, _, _ := strings.Cut(read(t, "testdata/widgets.yaml"), "\n---\n")
	var definition map[string]any
	if err := yaml.Unmarshal([]byte(document), &definition); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList", "items": []any{definition},
		}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	inModule(t)
	config := `{clusters: [{name: a, cluster: {server: "` + server.URL + `"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`
	if err := os.WriteFile("kubeconfig", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		options importcrd.Options
		want    string // in the error
	}{
		{options: importcrd.Options{Names: []string{"widgets.example.com"}}},
		{options: importcrd.Options{Groups: []string{"example.com"}}},
		{importcrd.Options{Names: []string{"Widget"}}, `has no definition "Widget" (did you mean widgets.example.com?)`},
		{importcrd.Options{Names: []string{"gadgets.example.com"}}, `has no definition "gadgets.example.com"`},
		{importcrd.Options{Groups: []string{"example.org"}}, `has no definition of the group "example.org"`},
		{importcrd.Options{Names: []string{"widgets.example.com"}, Context: "b"}, `context "b" does not exist`},
	} {
		c.options.Kubeconfig = "kubeconfig"
		result, err := importcrd.Run(t.Context(), c.options)
		switch {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want == "" && !slices.Equal(result.Definitions, []string{"widgets.example.com"}):
			t.Errorf("%+v: imported %q", c.options, result.Definitions)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
}

// TestImportErrors checks that an import that fails says why, and changes nothing.
func TestImportErrors(t *testing.T) {
	good, _, _ := strings.Cut(read(t, "testdata/widgets.yaml"), "\n---\n")
	inModule(t)
	for _, c := range []struct {
		name, text, want string
		options          importcrd.Options
		files            map[string]string
	}{
		{name: "nothing", text: "kind: ConfigMap\napiVersion: v1\n", want: "no CustomResourceDefinition in crd.yaml"},
		{name: "no YAML", text: "kind: CustomResourceDefinition\n  a: [", want: "crd.yaml: "},
		{name: "template", text: "{{ if .Values.crds }}\nkind: CustomResourceDefinition\n{{ end }}", want: "is a template: render it first"},
		{name: "old version", text: strings.Replace(good, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", 1),
			want: `has apiVersion "apiextensions.k8s.io/v1beta1", want apiextensions.k8s.io/v1`},
		{name: "wrong name", text: strings.Replace(good, "name: widgets.example.com", "name: widgets", 1), want: `is called "widgets", want "widgets.example.com"`},
		{name: "no Go kind", text: strings.ReplaceAll(good, "kind: Widget,", "kind: wi-dget,"), want: `the kind "wi-dget" of widgets.example.com is not a valid exported name in Go`},
		{name: "no version name", text: strings.ReplaceAll(good, "name: v1alpha1", "name: ../v1"), want: `has the version "../v1"`},
		{name: "no group name", text: strings.ReplaceAll(good, "example.com", "../example"), want: `has the group "../example"`},
		{name: "wrong type", text: strings.Replace(good, "served: false", "served: [1]", 1), want: "crd.yaml: json: cannot unmarshal array"},
		{name: "property", text: strings.Replace(good, "replicas: {type: integer, format: int32, minimum: 0}", `"a,b": {type: string}`, 1),
			want: `widgets.example.com: the property "a,b" of WidgetSpec: no Go field can have this name in JSON`},
		{name: "two definitions", text: good + "\n---\n" + strings.Replace(good, "scope: Namespaced", "scope: Cluster", 1),
			want: "widgets.example.com is defined twice, in crd.yaml and in crd.yaml, document 2"},
		{name: "no stored version", text: strings.Replace(good, "storage: true", "storage: false", 1), want: "widgets.example.com has no version that is stored"},
		{name: "property without a tag", text: strings.Replace(good, "replicas: {type: integer, format: int32, minimum: 0}", `"\U0001f600": {type: string}`, 1),
			want: "no Go field can have this name in JSON"},
		{name: "file as a name", text: good, options: importcrd.Options{Names: []string{"crd.yaml"}}, want: "crd.yaml is a file, not the name of a definition: import it by -f crd.yaml"},
		{name: "type of another import", text: good, files: map[string]string{"apis/example.com/v1/gadget_types.go": "package v1\n\ntype WidgetList int\n"},
			want: "apis/example.com/v1 has a type WidgetList already"},
		{name: "no file", options: importcrd.Options{Files: []string{"absent"}}, want: "stat absent: no such file or directory"},
		{name: "directory above", text: good, options: importcrd.Options{Dir: "../apis"}, want: "the directory ../apis is not below the working directory"},
		{name: "file of another", text: good, files: map[string]string{"apis/example.com/v1/widget_types.go": "package v1\n"},
			want: "apis/example.com/v1/widget_types.go exists and was not made by kapok import"},
		{name: "broken package", text: good, files: map[string]string{"apis/example.com/v1/other.go": "package other\n"},
			want: "generate from the types"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.text != "" {
				c.options.Files = []string{"crd.yaml"}
				c.files = mapWith(c.files, "crd.yaml", c.text)
			}
			for path, text := range c.files {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := files(t)
			_, err := importcrd.Run(t.Context(), c.options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			after := files(t)
			for path := range mapWith(before, "go.sum", "") {
				if path != "go.mod" && path != "go.sum" && before[path] != after[path] {
					t.Errorf("%s has changed", path)
				}
			}
			for path := range after {
				if _, ok := before[path]; !ok && path != "go.sum" {
					t.Errorf("%s is new", path)
				}
			}
			if err := os.RemoveAll("apis"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func mapWith(m map[string]string, key, value string) map[string]string {
	all := map[string]string{key: value}
	for k, v := range m {
		all[k] = v
	}
	return all
}
