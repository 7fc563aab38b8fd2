package crd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
)

// An api is a whole server with an HTTP client.
type api struct {
	testing.TB
	host   string
	client *http.Client
}

func newAPI(t testing.TB) *api {
	t.Helper()
	s, err := kapok.Start(t.Context(), kapok.Options{V1beta1CRDs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &api{t, s.Config().Host, client}
}

const (
	crdsPath  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	betaPath  = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
	asMerge   = "application/merge-patch+json"
	asColumns = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// do sends YAML, unless a content type is given, and returns the status code and the tree of the
// response.
func (a *api) do(method, path, body string, headers ...string) (int, map[string]any) {
	code, _, tree := a.ask(method, path, body, headers...)
	return code, tree
}

func (a *api) ask(method, path, body string, headers ...string) (int, http.Header, map[string]any) {
	a.Helper()
	r, err := http.NewRequestWithContext(a.Context(), method, a.host+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Fatal(err)
	}
	var tree map[string]any
	if json.Unmarshal(text, &tree) != nil {
		tree = map[string]any{"message": string(text)}
	}
	return resp.StatusCode, resp.Header, tree
}

func (a *api) must(code int, method, path, body string, headers ...string) map[string]any {
	a.Helper()
	got, tree := a.do(method, path, body, headers...)
	if got != code {
		a.Fatalf("%s %s: %d, want %d: %v", method, path, got, code, tree["message"])
	}
	return tree
}

func (a *api) patch(code int, path, patch string) map[string]any {
	a.Helper()
	return a.must(code, "PATCH", path, patch, "Content-Type", asMerge)
}

// until repeats a GET until done accepts the response.
func (a *api) until(what, path string, done func(code int, tree map[string]any) bool, headers ...string) map[string]any {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	for tick := time.Tick(time.Millisecond); ; {
		code, tree := a.do("GET", path, "", headers...)
		if done(code, tree) {
			return tree
		}
		select {
		case <-tick:
		case <-ctx.Done():
			a.Fatalf("%s: not seen; last response %d %v", what, code, tree)
		}
	}
}

// define creates a definition and waits until it is established.
func (a *api) define(text string) string {
	a.Helper()
	name := at(a.must(201, "POST", crdsPath, text), "metadata", "name").(string)
	a.until(name+" to be established", crdsPath+"/"+name, func(_ int, tree map[string]any) bool { return condition(tree, "Established") == "True" })
	return crdsPath + "/" + name
}

// at follows a chain of keys.
func at(tree map[string]any, keys ...string) any {
	var v any = tree
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// condition returns the status of a condition, and conditionLine all of its fields.
func condition(tree map[string]any, kind string) string {
	status, _, _ := strings.Cut(conditionLine(tree, kind), " ")
	return status
}

func conditionLine(tree map[string]any, kind string) string {
	list, _ := at(tree, "status", "conditions").([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == kind {
			return fmt.Sprint(c["status"], " ", c["reason"], " ", c["message"])
		}
	}
	return ""
}

// A follower is an open watch.
type follower struct {
	resp  *http.Response
	lines *bufio.Scanner
}

func (a *api) follow(path string) *follower {
	a.Helper()
	r, err := http.NewRequestWithContext(a.Context(), "GET", a.host+path, nil)
	if err != nil {
		a.Fatal(err)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		a.Fatalf("watch %s: %s", path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &follower{resp, lines}
}

// next returns the type and the object of the next event, or "" at the end of the watch.
func (f *follower) next() (string, map[string]any) {
	if !f.lines.Scan() {
		f.resp.Body.Close()
		return "", nil
	}
	var e struct {
		Type   string
		Object map[string]any
	}
	if json.Unmarshal(f.lines.Bytes(), &e) != nil {
		return "garbled", nil
	}
	return e.Type, e.Object
}

// kind returns a definition of version v1 in example.com with the given names and the rest of the
// version.
func kind(plural, names, version string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]s, %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
%[3]s
`, plural, names, version)
}
