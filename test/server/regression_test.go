package server_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestDepth checks that each stored object can be read again, however deep it is, also after a
// restart.
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

// TestCleanupOfAnOlderDefinition checks that the deletion of a definition's objects spares those of
// its successor.
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
	// The older deletion continues at every change.
	for i := range 20 {
		r.must(200, "PATCH", foos+"/stuck", fmt.Sprintf(`{"n":%d}`, i), "Content-Type", mergePatch)
	}
	r.must(200, "GET", foos+"/precious", "")
}

// TestStrangersMakeNoSeries checks that users without permissions cannot add series to the metrics.
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

// TestDryRunInProtobuf checks that the object of a dry run has no resourceVersion in any encoding.
func TestDryRunInProtobuf(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	text := r.must(201, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "Accept", "application/vnd.kubernetes.protobuf")
	if bytes.Contains([]byte(text), []byte{6<<3 | 2, 1, '0'}) { // field 6 of ObjectMeta
		t.Error("a dry run shows resourceVersion 0")
	}
}

// TestManagersOfVersionsNoLongerServed checks that managers keep their fields when the version of
// their entry is no longer served.
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

// TestStatusDefault checks that a status that a create drops gets its default, in the response and
// in every read.
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
