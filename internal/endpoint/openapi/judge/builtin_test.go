package judge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/endpoint/openapi"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubernetes is the release to compare with.
const kubernetes = "k8s.io/kubernetes@v1.37.2"

type object = map[string]any

// recorded reads a file of the documents that Kubernetes' repository records.
func recorded(t *testing.T, pattern string) map[string]object {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", kubernetes)
	command.Dir = t.TempDir()
	out, err := command.Output()
	if err != nil {
		t.Fatalf("getting %s: %v\n%s", kubernetes, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "api", "openapi-spec", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded documents %s: %v", pattern, err)
	}
	documents := map[string]object{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), "_openapi.json")
		documents[strings.ReplaceAll(name, "__", "/")] = decode(t, raw)
	}
	return documents
}

func decode(t *testing.T, raw []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return o
}

var (
	finished     = regexp.MustCompile(`^(api/v1|apis/[^/]+/v\d+)$`)
	resourcePath = regexp.MustCompile(`^/(?:api/v1|apis/[^/]+/v\d+)(/namespaces/\{namespace\})?/([a-z]+)(/\{name\}(?:/([a-z]+))?)?$`)
)

var verbs = map[string]string{"list": "list", "get": "get", "post": "create", "put": "update", "patch": "patch", "delete": "delete",
	"deletecollection": "deletecollection"}

// resources derives the resources of a group version from a recorded document.
func resources(name string, document object) []openapi.Resource {
	names := strings.Split(name, "/")
	group, version := "", names[len(names)-1]
	if len(names) == 3 {
		group = names[1]
	}
	byPlural := map[string]*openapi.Resource{}
	paths := document["paths"].(object)
	for path, item := range paths {
		match := resourcePath.FindStringSubmatch(path)
		if match == nil {
			continue
		}
		r := byPlural[match[2]]
		if r == nil {
			r = &openapi.Resource{Group: group, Version: version, Plural: match[2]}
			byPlural[match[2]] = r
		}
		r.Namespaced = r.Namespaced || match[1] != ""
		var sub *openapi.Subresource
		for method, operation := range item.(object) {
			o, ok := operation.(object)
			if !ok {
				continue
			}
			kind := o["x-kubernetes-group-version-kind"].(object)
			gvk := schema.GroupVersionKind{Group: kind["group"].(string), Version: kind["version"].(string), Kind: kind["kind"].(string)}
			action := o["x-kubernetes-action"].(string)
			if match[4] != "" {
				if sub == nil {
					r.Subresources = append(r.Subresources, openapi.Subresource{Name: match[4], Kind: gvk})
					sub = &r.Subresources[len(r.Subresources)-1]
				}
				sub.Verbs = append(sub.Verbs, verbs[action])
				continue
			}
			r.Kind = gvk.Kind
			r.ListKind = gvk.Kind + "List"
			if !slices.Contains(r.Verbs, verbs[action]) {
				r.Verbs = append(r.Verbs, verbs[action])
			}
			if action == "list" && paths["/"+name+"/watch/"+r.Plural] != nil && !slices.Contains(r.Verbs, "watch") {
				r.Verbs = append(r.Verbs, "watch")
			}
			if action == "delete" && method == "delete" {
				text, _ := json.Marshal(o["responses"])
				r.DeleteAnswersObject = !strings.Contains(string(text), "meta.v1.Status")
			}
		}
	}
	var all []openapi.Resource
	for _, r := range byPlural {
		all = append(all, *r)
	}
	return all
}

func get(t *testing.T, handler http.Handler, path string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// normalise removes known differences between the recorded documents and those of Kapok: the record
// includes CBOR and lacks enumerations.
func normalise(v any) any {
	switch v := v.(type) {
	case object:
		for key, value := range v {
			if strings.Contains(key, "cbor") {
				delete(v, key)
				continue
			}
			if _, list := value.([]any); list && key == "enum" {
				delete(v, key)
				continue
			}
			if text, ok := value.(string); ok && key == "description" {
				text, _, _ = strings.Cut(text, "Possible enum values:")
				v[key] = strings.TrimSpace(text)
				continue
			}
			v[key] = normalise(value)
		}
		return v
	case []any:
		v = slices.DeleteFunc(v, func(v any) bool {
			text, ok := v.(string)
			return ok && strings.Contains(text, "cbor")
		})
		for i := range v {
			v[i] = normalise(v[i])
		}
		return v
	}
	return v
}

// differences lists the differences between two documents.
func differences(at string, got, want any) []string {
	if g, ok := got.(object); ok {
		if w, ok := want.(object); ok {
			var all []string
			for key := range g {
				if _, ok := w[key]; !ok {
					all = append(all, fmt.Sprintf("%s: %q is too much: %.200v", at, key, g[key]))
				}
			}
			for key := range w {
				if _, ok := g[key]; !ok {
					all = append(all, fmt.Sprintf("%s: %q is missing: %.200v", at, key, w[key]))
				} else {
					all = append(all, differences(at+" "+key, g[key], w[key])...)
				}
			}
			return all
		}
	}
	if g, ok := got.([]any); ok {
		if w, ok := want.([]any); ok && len(g) == len(w) {
			var all []string
			for i := range g {
				all = append(all, differences(fmt.Sprintf("%s %d", at, i), g[i], w[i])...)
			}
			return all
		}
	}
	if !reflect.DeepEqual(got, want) {
		return []string{fmt.Sprintf("%s: got %.300v, want %.300v", at, got, want)}
	}
	return nil
}

func report(t *testing.T, differences []string) {
	t.Helper()
	slices.Sort(differences)
	for i, difference := range differences {
		if i == 30 {
			t.Errorf("... %d more", len(differences)-i)
			return
		}
		t.Error(difference)
	}
}

func TestBuiltinV3(t *testing.T) {
	documents := recorded(t, "v3/*.json")
	snapshot := &openapi.Snapshot{Version: "unversioned"}
	for name, document := range documents {
		if finished.MatchString(name) {
			snapshot.Resources = append(snapshot.Resources, resources(name, document)...)
		}
	}
	handler := openapi.New(func() *openapi.Snapshot { return snapshot })
	compared := 0
	for name, want := range documents {
		if !finished.MatchString(name) && name != "api" && name != "apis" && name != "version" && name != "apis/apps" {
			continue
		}
		compared++
		got := decode(t, get(t, handler, "/openapi/v3/"+name))
		report(t, differences(name, normalise(got), normalise(want)))
	}
	if compared < 25 {
		t.Errorf("only %d documents compared", compared)
	}
}
