package kapok_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
)

// raw sends requests as they are, past all client libraries.
type raw struct {
	testing.TB
	server *kapok.Server
	client *http.Client
}

func startRaw(t testing.TB, o kapok.Options) *raw {
	t.Helper()
	server, err := kapok.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &raw{t, server, client}
}

func (r *raw) do(method, path, body string, headers ...string) (int, string) {
	r.Helper()
	req, err := http.NewRequest(method, "http://kapok"+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (r *raw) must(code int, method, path, body string, headers ...string) string {
	r.Helper()
	got, text := r.do(method, path, body, headers...)
	if got != code {
		r.Fatalf("%s %s: %d, want %d: %.500s", method, path, got, code, text)
	}
	return text
}

func (r *raw) wait(what string, done func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

const (
	crds       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	foosCRD    = crds + "/foos.example.com"
	foos       = "/apis/example.com/v1/namespaces/default/foos"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// fooVersions creates a definition whose objects may hold anything.
func (r *raw) fooVersions(versions ...string) {
	r.Helper()
	var stated []string
	for i, v := range versions {
		stated = append(stated, fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, v, i == 0))
	}
	r.must(201, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[`+strings.Join(stated, ",")+`]}}`)
	r.established()
}

// established waits until foos are served by their definition of now, and until that does not change any more (it would
// make writes start again). That foos answer would say nothing: an older definition of that name may do that.
func (r *raw) established() {
	r.Helper()
	r.wait("the definition to be established", func() bool {
		return strings.Contains(r.must(200, "GET", foosCRD, ""), `"status":"True","type":"Established"`)
	})
}

func foo(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":%q}%s}`, name, rest)
}

// TestDepth: what is stored can be read again, however deep it is, and after a restart.
func TestDepth(t *testing.T) {
	dir := t.TempDir()
	r := startRaw(t, kapok.Options{DataDir: dir})
	r.fooVersions("v1")
	stored := 0
	for n := 9996; n <= 10001; n++ {
		name := fmt.Sprintf("deep-%d", n)
		code, text := r.do("POST", foos, foo(name, `,"spec":`+strings.Repeat(`{"a":`, n-1)+"1"+strings.Repeat("}", n-1)))
		switch code {
		case 201:
			stored++
			r.must(200, "PATCH", foos+"/"+name, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
		case 400:
		default:
			t.Errorf("depth %d: %d %.300s", n, code, text)
		}
	}
	t.Logf("%d objects were stored", stored)
	if err := r.server.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := kapok.Start(t.Context(), kapok.Options{DataDir: dir})
	if err != nil {
		t.Fatalf("the server does not start again: %.300v", err)
	}
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
}

// TestCleanupOfAnOlderDefinition: what deletes the objects of a definition leaves those of its successor alone.
func TestCleanupOfAnOlderDefinition(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.fooVersions("v1")
	r.must(201, "POST", foos, strings.Replace(foo("stuck", ""), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1))
	r.must(200, "DELETE", foosCRD, "")
	r.wait("the object to be marked", func() bool { return strings.Contains(r.must(200, "GET", foos+"/stuck", ""), "deletionTimestamp") })
	r.must(200, "PATCH", foosCRD, `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	r.wait("the definition to go", func() bool { code, _ := r.do("GET", foosCRD, ""); return code == 404 })
	r.fooVersions("v1")
	r.must(201, "POST", foos, foo("precious", ""))
	// The older cleanup looks again at every change.
	for i := range 20 {
		r.must(200, "PATCH", foos+"/stuck", fmt.Sprintf(`{"n":%d}`, i), "Content-Type", mergePatch)
	}
	r.must(200, "GET", foos+"/precious", "")
}

// TestStrangersMakeNoSeries: who may do nothing cannot make the metrics grow.
func TestStrangersMakeNoSeries(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	for i := range 20 {
		r.must(403, "GET", fmt.Sprintf("/made-up-%d", i), "", "Impersonate-User", "system:anonymous")
		r.do(fmt.Sprintf("MADEUP%d", i), "/api/v1/namespaces/default/configmaps/made-up", "")
	}
	if text := strings.ToLower(r.must(200, "GET", "/metrics", "")); strings.Contains(text, "made-up-") || strings.Contains(text, "madeup") {
		t.Error("made-up paths or methods are labels")
	}
}

// TestDryRunInProtobuf: what is not stored has no resourceVersion, in whatever form.
func TestDryRunInProtobuf(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	text := r.must(201, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "Accept", "application/vnd.kubernetes.protobuf")
	if bytes.Contains([]byte(text), []byte{6<<3 | 2, 1, '0'}) { // field 6 of ObjectMeta
		t.Error("a dry run shows resourceVersion 0")
	}
}

// TestManagersOfVersionsNoLongerServed keep what they own.
func TestManagersOfVersionsNoLongerServed(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.fooVersions("v1", "v2")
	v2 := strings.Replace(foos, "v1", "v2", 1)
	applied := func(version, x string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Foo","metadata":{"name":"a"},"x":%q}`, version, x)
	}
	r.must(201, "PATCH", v2+"/a?fieldManager=two", applied("v2", "1"), "Content-Type", applyPatch)
	r.must(200, "PATCH", foosCRD, `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`, "Content-Type", "application/json-patch+json")
	r.wait("v2 to go", func() bool { code, _ := r.do("GET", v2, ""); return code == 404 })
	r.must(409, "PATCH", foos+"/a?fieldManager=one", applied("v1", "2"), "Content-Type", applyPatch)
}

// TestStatusDefault: the status that a create drops comes back with its default, in the answer and whenever the object is read.
func TestStatusDefault(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.must(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "jobs.example.com"},
		"spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "jobs", "kind": "Job"}, "versions": [{
			"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"status": {"type": "object", "default": {"phase": "Pending"}, "properties": {"phase": {"type": "string"}}}}}}}]}}`,
		"Content-Type", "application/json")
	r.wait("the kind", func() bool { code, _ := r.do("GET", "/apis/example.com/v1/jobs", ""); return code == 200 })
	const want = `"status":{"phase":"Pending"}`
	job := `{"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "a"}, "status": {"phase": "Done"}}`
	if got := r.must(201, "POST", "/apis/example.com/v1/jobs", job, "Content-Type", "application/json"); !strings.Contains(got, want) {
		t.Error("created", got)
	}
	for _, path := range []string{"/apis/example.com/v1/jobs/a", "/apis/example.com/v1/jobs"} {
		if got := r.must(200, "GET", path, ""); !strings.Contains(got, want) {
			t.Error(path, got)
		}
	}
}
