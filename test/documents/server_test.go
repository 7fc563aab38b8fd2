package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// The paths of the documents' kinds.
const (
	crds     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	betaCRDs = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"

	atGroup  = "cnat.programming-kubernetes.info"
	atCRD    = "ats." + atGroup
	atRoot   = "/apis/" + atGroup + "/v1alpha1"
	ats      = atRoot + "/namespaces/default/ats"
	at       = ats + "/example-at"
	crontabs = "/apis/stable.example.com/v1/namespaces/default/crontabs"
)

const (
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// A server is a server for one row.
type server struct {
	testing.TB
	*kapok.Server
	client *http.Client
}

func start(t testing.TB) *server { return startWith(t, kapok.Options{V1beta1CRDs: true}) }

func startWith(t testing.TB, o kapok.Options) *server {
	t.Helper()
	s, err := kapok.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, s, client}
}

// An answer is a response.
type answer struct {
	*server
	request string
	code    int
	header  http.Header
	text    string
	tree    map[string]any // nil if it is no JSON object
}

// send sends a body of YAML, unless a header sets another type.
func (s *server) send(method, path, body string, headers ...string) *answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.Config().Host+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	a := &answer{server: s, request: method + " " + path, code: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.tree) // it may be anything
	return a
}

// must sends a request that must get a status code.
func (s *server) must(code int, method, path, body string, headers ...string) *answer {
	s.Helper()
	a := s.send(method, path, body, headers...)
	if a.code != code {
		s.Fatalf("%s: %d, want %d: %.2000s", a.request, a.code, code, a.text)
	}
	return a
}

func (s *server) get(path string, headers ...string) *answer {
	s.Helper()
	return s.must(http.StatusOK, "GET", path, "", headers...)
}

// watch returns the first n events of a watch, as TYPE NAME.
func (s *server) watch(path string, n int) []string {
	s.Helper()
	resp, err := s.client.Get(s.Config().Host + path)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var events []string
	for lines := bufio.NewScanner(resp.Body); len(events) < n && lines.Scan(); {
		e := &answer{server: s, text: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &e.tree); err != nil {
			s.Fatal(err)
		}
		events = append(events, e.string("type")+" "+e.string("object.metadata.name"))
	}
	return events
}

// find returns the value at a path of keys and indices; nil if there is none.
func (a *answer) find(path string) any {
	var value any = a.tree
	for key := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[strings.ReplaceAll(key, "|", ".")]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func (a *answer) string(path string) string {
	s, _ := a.find(path).(string)
	return s
}

// has checks pairs of paths and values; the values are YAML, or "absent".
func (a *answer) has(pairs ...string) *answer {
	a.Helper()
	for i := 0; i < len(pairs); i += 2 {
		found := a.find(pairs[i])
		if pairs[i+1] == "absent" {
			if found != nil {
				a.Errorf("%s: %s is %v, want none", a.request, pairs[i], found)
			}
			continue
		}
		var want any
		if err := yaml.Unmarshal([]byte(pairs[i+1]), &want); err != nil {
			a.Fatal(err)
		}
		if !reflect.DeepEqual(found, want) {
			a.Errorf("%s: %s is %v, want %v, in %.1500s", a.request, pairs[i], found, want, a.text)
		}
	}
	return a
}

// says checks that the response contains texts.
func (a *answer) says(texts ...string) *answer {
	a.Helper()
	for _, text := range texts {
		if !strings.Contains(a.text, text) {
			a.Errorf("%s: %q is not in %.1500s", a.request, text, a.text)
		}
	}
	return a
}

// item returns the element of a list with a value at a key.
func (a *answer) item(list, key, value string) *answer {
	a.Helper()
	items, _ := a.find(list).([]any)
	for _, item := range items {
		if tree, ok := item.(map[string]any); ok && tree[key] == value {
			text, _ := json.Marshal(tree)
			return &answer{server: a.server, request: a.request + " " + value, tree: tree, text: string(text)}
		}
	}
	a.Fatalf("%s: no %s %s in %.1500s", a.request, key, value, a.text)
	return nil
}

// manifest reads a manifest of the documents.
func manifest(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "kubectl", "testdata", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// define creates a definition, or replaces its spec, and returns it when it is established.
func (s *server) define(text string) *answer {
	s.Helper()
	var head struct {
		APIVersion string
		Metadata   struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		s.Fatal(err)
	}
	path := "/apis/" + head.APIVersion + "/customresourcedefinitions"
	a := s.send("POST", path, text)
	for a.code == http.StatusConflict { // it exists, or the server is writing its status
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			s.Fatal(err)
		}
		tree["metadata"].(map[string]any)["resourceVersion"] = s.get(path + "/" + head.Metadata.Name).string("metadata.resourceVersion")
		body, err := json.Marshal(tree)
		if err != nil {
			s.Fatal(err)
		}
		a = s.send("PUT", path+"/"+head.Metadata.Name, string(body))
	}
	if a.code > 299 {
		s.Fatalf("%s: %d: %.2000s", a.request, a.code, a.text)
	}
	return s.until(crds+"/"+head.Metadata.Name, func(a *answer) bool { return a.condition("Established") == "True" })
}

// condition returns the status of a condition; "" if there is none.
func (a *answer) condition(kind string) string {
	conditions, _ := a.find("status.conditions").([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"].(string)
		}
	}
	return ""
}

// until repeats a GET until the response is as expected.
func (s *server) until(path string, done func(*answer) bool) *answer {
	s.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		a := s.send("GET", path, "")
		if done(a) {
			return a
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("%s: timed out, last response %.2000s", a.request, a.text)
		}
	}
}

// crd returns a definition of version v1 with more lines of spec, which accepts any objects.
func crd(plural, group, kind, more string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + "." + group + `}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {plural: ` + plural + `, kind: ` + kind + `}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
` + more
}

// atOf returns an At with a name and more fields.
func atOf(name, more string) string {
	return "apiVersion: " + atGroup + "/v1alpha1\nkind: At\nmetadata: {name: " + name + "}\n" + more
}

// asJSON converts YAML to JSON.
func asJSON(t testing.TB, text string) string {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
