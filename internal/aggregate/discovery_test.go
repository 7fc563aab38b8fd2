package aggregate_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// aggregated returns a document with one resource in each of the given versions of a group.
func aggregated(group string, versions ...string) string {
	var all []string
	for _, v := range versions {
		all = append(all, `{"version":"`+v+`","resources":[{"resource":"things","scope":"Namespaced","verbs":["get"],"subresources":[{"subresource":"status"}]}]}`)
	}
	return `{"metadata":{"name":"` + group + `"},"versions":[` + strings.Join(all, ",") + `]}`
}

// discovered returns the discovery document of v1 of the group, in JSON.
func (w *world) discovered() string {
	w.Helper()
	m := w.aggregator.Load().All()[schema.GroupVersion{Group: "things.example.com", Version: "v1"}]
	if m == nil {
		return "nothing"
	}
	data, err := json.Marshal(m.Discovery)
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

const (
	stale   = `{"version":"v1","freshness":"Stale"}`
	nothing = `{"version":"v1","freshness":"Current"}`
	known   = `{"version":"v1","resources":[{"resource":"things","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"","verbs":["get"],` +
		`"subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":""},"verbs":null}]}],"freshness":"Current"}`
)

// TestDiscovery checks that the documents of a server count for its registered group versions only.
func TestDiscovery(t *testing.T) {
	for _, tc := range []struct {
		name, typ, answer, want string
	}{
		{"of v1", aggregatedType, aggregated("things.example.com", "v1", "v2"), known},
		{"of others", aggregatedType, aggregated("apps", "v1") + "," + aggregated("", "v1"), nothing},
		{"of nothing", aggregatedType, "", nothing},
		{"no JSON", aggregatedType, "}{", stale},
		{"another shape", aggregatedType, `{"versions":"v1"}`, stale},
		{"huge", aggregatedType, `{"metadata":{"name":"` + strings.Repeat("x", 17<<20) + `"}}`, stale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/apis" {
						rw.Header().Set("Content-Type", tc.typ)
						fmt.Fprintf(rw, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[%s]}`, tc.answer)
					}
				})
				w.things()
				if got := w.discovered(); got != tc.want {
					t.Errorf("got  %.300s\nwant %s", got, tc.want)
				}
			})
		})
	}
}

// TestLegacyDiscovery has a server without aggregated discovery, and reads the documents of its
// group versions.
func TestLegacyDiscovery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/apis":
				rw.Header().Set("Content-Type", "application/json")
				io.WriteString(rw, `{"kind":"APIGroupList","groups":[]}`)
			case thingsPath:
				io.WriteString(rw, `{"resources":[
					{"name":"orphans/status","namespaced":true,"kind":"Orphan","verbs":["get"]},
					{"name":"things/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
					{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list"],"shortNames":["th"],"categories":["all"]},
					{"name":"worlds","namespaced":false,"kind":"World","verbs":["get"]}]}`)
			default:
				http.NotFound(rw, r)
			}
		})
		w.things()
		w.register("v2")
		const want = `{"version":"v1","resources":[` +
			`{"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"scope":"Namespaced","singularResource":"thing","verbs":["get","list"],"shortNames":["th"],"categories":["all"],` +
			`"subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]},` +
			`{"resource":"worlds","responseKind":{"group":"","version":"","kind":"World"},"scope":"Cluster","singularResource":"","verbs":["get"]},` +
			`{"resource":"orphans","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"","verbs":null,` +
			`"subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"Orphan"},"verbs":["get"]}]}],"freshness":"Current"}`
		if got := w.discovered(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		m := w.aggregator.Load().All()[schema.GroupVersion{Group: "things.example.com", Version: "v2"}]
		if m.Discovery.Freshness != "Stale" || len(m.Discovery.Resources) > 0 {
			t.Errorf("v2 has no discovery document, but is %+v", m.Discovery)
		}
	})
}

// TestRefresh checks when documents are requested again: after a minute, sooner after a failure,
// and at once after a change of the APIService. An unchanged set stays the same.
func TestRefresh(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		doc, asked, unchanged := aggregated("things.example.com", "v1"), 0, 0
		var mu sync.Mutex // guards the variables below
		serve := func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/apis" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			asked++
			rw.Header().Set("Content-Type", aggregatedType)
			rw.Header().Set("Etag", fmt.Sprintf("%q", fmt.Sprint(len(doc))))
			if r.Header.Get("If-None-Match") == rw.Header().Get("Etag") {
				unchanged++
				rw.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprintf(rw, `{"items":[%s]}`, doc)
		}
		w.things()
		if got := w.discovered(); got != stale {
			t.Errorf("before there is a server: %s", got)
		}
		stop := w.serve("things.test:8443", "things.default.svc", serve)
		time.Sleep(3 * time.Second)
		if got := w.discovered(); got != known {
			t.Errorf("with a server: %s", got)
		}
		synctest.Wait()
		set := w.aggregator.Load()
		mu.Lock()
		asked, unchanged = 0, 0
		mu.Unlock()
		time.Sleep(10*time.Minute + time.Second)
		mu.Lock()
		if asked != 10 || unchanged != 10 || w.aggregator.Load() != set {
			t.Errorf("in ten minutes there were %d requests, %d of them answered by 304; the same set: %t", asked, unchanged, w.aggregator.Load() == set)
		}
		doc = ""
		mu.Unlock()
		time.Sleep(time.Minute)
		if got := w.discovered(); got != nothing {
			t.Errorf("with an empty document: %s", got)
		}
		stop()
		time.Sleep(time.Minute)
		if got := w.discovered(); got != stale {
			t.Errorf("without the server: %s", got)
		}
		w.remove("APIService", "v1.things.example.com")
		if got := w.discovered(); got != "nothing" {
			t.Errorf("without the APIService: %s", got)
		}
	})
}

// TestOpenAPIDocuments checks that the OpenAPI documents of a server count for its group versions
// only.
func TestOpenAPIDocuments(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/openapi/v3":
				io.WriteString(rw, `{"paths":{"apis/things.example.com/v1":{"serverRelativeURL":"https://evil.example.com/x?hash=A%26B"},"apis/apps/v1":{"serverRelativeURL":"/x"},"apis":{}}}`)
			case "/openapi/v2":
				rw.Header().Set("Etag", `"1"`)
				io.WriteString(rw, `{"paths":{}}`)
			case "/openapi/v3/apis/things.example.com/v1":
				io.WriteString(rw, "for "+r.Header.Get("X-Remote-User"))
			}
		})
		w.things()
		documents, url := w.aggregator.Load().All()[schema.GroupVersion{Group: "things.example.com", Version: "v1"}].OpenAPI()
		if want := "/openapi/v3/apis/things.example.com/v1?hash=A%26B"; url != want || len(documents.V3) != 1 {
			t.Errorf("the document is at %s of %v, want %s", url, documents.V3, want)
		}
		if string(documents.V2) != `{"paths":{}}` || documents.V2Tag != `"1"` {
			t.Errorf("the v2 document is %s, %s", documents.V2, documents.V2Tag)
		}
		if code, body, _ := w.get(w.front(), url); code != 200 || body != "for alice" {
			t.Errorf("%d %s", code, body)
		}
		for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3/apis/things.example.com", "/openapi/v2", "/openapi/v3/apis//v1"} {
			if w.aggregator.Load().Find(path) != nil {
				t.Errorf("%s is served by another server", path)
			}
		}
	})
}
