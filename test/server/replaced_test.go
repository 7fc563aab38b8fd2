package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
)

// These tests are about requests under way while a definition gets another schema.

// fooVersion returns a version of foos whose spec has the field both, and another one.
func fooVersion(name string, storage bool, other string) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"both":{"type":"string"}%s}}}}}}`, name, storage, other)
}

const (
	oldField = `,"old":{"type":"string"}`
	newField = `,"new":{"type":"string"}`
)

func (r *raw) define(conversion string, versions ...string) {
	r.Helper()
	r.must(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
		"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
		"spec":{`+conversion+`"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},
		"versions":[`+strings.Join(versions, ",")+`]}}`)
	r.established()
}

func (r *raw) redefine(versions ...string) {
	r.Helper()
	r.must(200, "PATCH", foosCRD, `{"spec":{"versions":[`+strings.Join(versions, ",")+`]}}`, "Content-Type", mergePatch)
}

func fooIn(version string) string { return strings.Replace(foos, "v1", version, 1) }

// heldHook starts a webhook that changes only the apiVersion, and blocks the first call after hold
// is set.
func heldHook(t *testing.T) (conversion string, hold *atomic.Bool, held, release chan struct{}) {
	hold, held, release = new(atomic.Bool), make(chan struct{}), make(chan struct{})
	hook := hooktest.Start(t, func(r *hooktest.Review) any {
		for _, o := range r.Request.Objects {
			o["apiVersion"] = r.Request.Desired
		}
		if hold.CompareAndSwap(true, false) {
			close(held)
			<-release
		}
		return r.Success(r.Request.Objects...)
	})
	ca, err := json.Marshal(hook.CA)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
		"clientConfig":{"url":%q,"caBundle":%s}}},`, hook.URL, ca), hold, held, release
}

// TestWriteAcrossDefinitions checks that a patch under way does not revert writes under a newer
// definition.
func TestWriteAcrossDefinitions(t *testing.T) {
	conversion, hold, held, release := heldHook(t)
	r := startRaw(t, kapok.Options{})
	r.define(conversion, fooVersion("v1", true, ""), fooVersion("v2", false, ""))
	r.must(201, "POST", foos, foo("a", `,"spec":{"both":"b"}`))
	hold.Store(true)
	done := make(chan string)
	go func() {
		code, text := r.do("PATCH", fooIn("v2")+"/a", `{"metadata":{"labels":{"l":"v"}}}`, "Content-Type", mergePatch)
		done <- fmt.Sprint(code, text)
	}()
	<-held
	r.redefine(fooVersion("v1", false, newField), fooVersion("v2", false, newField), fooVersion("v3", true, newField))
	r.wait("v3", func() bool { code, _ := r.do("GET", fooIn("v3"), ""); return code == 200 })
	r.must(200, "PATCH", fooIn("v3")+"/a", `{"spec":{"new":"precious"}}`, "Content-Type", mergePatch)
	close(release)
	if answer := <-done; !strings.HasPrefix(answer, "200") {
		t.Error("the patch that was under way:", answer)
	}
	if now := r.must(200, "GET", fooIn("v3")+"/a", ""); !strings.Contains(now, "precious") || !strings.Contains(now, `"l":"v"`) {
		t.Error("now:", now)
	}
}

// TestCreateAcrossDefinitions checks that no object is stored in a removed version.
func TestCreateAcrossDefinitions(t *testing.T) {
	conversion, hold, held, release := heldHook(t)
	r := startRaw(t, kapok.Options{})
	r.define(conversion, fooVersion("v1", true, ""), fooVersion("v2", false, ""))
	hold.Store(true)
	done := make(chan string)
	go func() {
		code, text := r.do("POST", fooIn("v2"), `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"late"},"spec":{"both":"b"}}`)
		done <- fmt.Sprint(code, text)
	}()
	<-held
	r.redefine(fooVersion("v1", false, ""), fooVersion("v2", true, ""))
	r.must(200, "PATCH", foosCRD+"/status", `{"status":{"storedVersions":["v2"]}}`, "Content-Type", mergePatch)
	r.redefine(fooVersion("v2", true, ""))
	r.wait("the end of v1", func() bool { code, _ := r.do("GET", foos, ""); return code == 404 })
	close(release)
	if answer := <-done; !strings.HasPrefix(answer, "201") {
		t.Error("the create that was under way:", answer)
	}
	if now := r.must(200, "GET", fooIn("v2")+"/late", ""); !strings.Contains(now, `"apiVersion":"example.com/v2"`) {
		t.Error("now:", now)
	}
}

// TestForgottenVersion checks that an object that is stored in a removed version is not read as
// another one.
func TestForgottenVersion(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.define("", fooVersion("v1", true, oldField), fooVersion("v2", false, newField))
	r.must(201, "POST", foos, foo("a", `,"spec":{"both":"b","old":"o"}`))
	r.redefine(fooVersion("v1", false, oldField), fooVersion("v2", true, newField))
	r.must(200, "PATCH", foosCRD+"/status", `{"status":{"storedVersions":["v2"]}}`, "Content-Type", mergePatch)
	r.redefine(fooVersion("v2", true, newField))
	r.wait("the end of v1", func() bool { code, _ := r.do("GET", foos, ""); return code == 404 })
	for _, request := range [][]string{{"GET", "/a", ""}, {"GET", "", ""}, {"PATCH", "/a", `{"spec":{"new":"n"}}`}} {
		code, text := r.do(request[0], fooIn("v2")+request[1], request[2], "Content-Type", mergePatch)
		if code != 500 || !strings.Contains(text, "request to convert CR from an invalid group/version: example.com/v1") {
			t.Error(request, code, text)
		}
	}
	r.redefine(fooVersion("v1", false, oldField), fooVersion("v2", true, newField))
	r.wait("v1", func() bool { code, _ := r.do("GET", foos, ""); return code == 200 })
	if now := r.must(200, "GET", foos+"/a", ""); !strings.Contains(now, `"old":"o"`) {
		t.Error("now:", now)
	}
}

// TestWatchAcrossDefinitions checks that a watch does not send an object by a schema older than the
// object.
func TestWatchAcrossDefinitions(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	r.define("", fooVersion("v1", true, ""))
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://kapok"+foos+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 3 { // more than the server buffers for a client that does not read
		r.must(201, "POST", foos, foo(fmt.Sprintf("a%d", i), `,"spec":{"both":"`+strings.Repeat("x", 1<<20)+`"}`))
	}
	r.redefine(fooVersion("v1", true, newField))
	r.wait("the new schema", func() bool {
		return strings.Contains(r.must(201, "POST", foos+"?dryRun=All", foo("d", `,"spec":{"new":"n"}`)), `"new":"n"`)
	})
	r.must(201, "POST", foos, foo("z", `,"spec":{"both":"b","new":"precious"}`))
	events := bufio.NewReader(resp.Body)
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			return // the watch has ended, and a new one continues with the object
		}
		if strings.Contains(line, `"name":"z"`) && !strings.Contains(line, "precious") {
			t.Fatal(line)
		}
	}
}

// TestFormsAcrossDefinitions checks that the served object also depends on the schema of the
// version that it is stored in.
func TestFormsAcrossDefinitions(t *testing.T) {
	const plain, filled = `,"x":{"type":"string"}`, `,"x":{"type":"string","default":"dflt"}`
	r := startRaw(t, kapok.Options{})
	r.define("", fooVersion("v1", true, plain), fooVersion("v2", false, plain))
	r.must(201, "POST", foos, foo("a", `,"spec":{"both":"b"}`))
	r.must(200, "GET", fooIn("v2")+"/a", "")
	r.redefine(fooVersion("v1", true, filled), fooVersion("v2", false, plain))
	r.wait("the default", func() bool { return strings.Contains(r.must(200, "GET", foos+"/a", ""), "dflt") })
	if now := r.must(200, "GET", fooIn("v2")+"/a", ""); !strings.Contains(now, "dflt") {
		t.Error(now)
	}
}
