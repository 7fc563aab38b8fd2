package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func request(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// listing is the response of /openapi/v3: addresses by name.
func listing(t *testing.T, h http.Handler) map[string]string {
	t.Helper()
	w := request(h, http.MethodGet, pathV3)
	var root struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &root); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	addresses := map[string]string{}
	for name, document := range root.Paths {
		addresses[name] = document.URL
	}
	return addresses
}

func TestListing(t *testing.T) {
	var made atomic.Int32
	snapshot := snapshotOf(at("1", &made))
	h := New(func() *Snapshot { return snapshot })
	addresses := listing(t, h)
	for _, name := range []string{"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "apis/cnat.example.com/v1alpha1", "version"} {
		u, err := url.Parse(addresses[name])
		if err != nil || u.Path != "/openapi/v3/"+name || len(u.Query().Get("hash")) != 64 {
			t.Errorf("%s: %q %v", name, addresses[name], err)
		}
		delete(addresses, name)
	}
	if len(addresses) > 0 {
		t.Errorf("listed too: %v", addresses)
	}
	if made.Load() > 0 {
		t.Error("a schema was read to list the documents")
	}
}

func TestHashes(t *testing.T) {
	first, second := snapshotOf(at("1", nil)), snapshotOf(at("2", nil))
	snapshot := first
	h := New(func() *Snapshot { return snapshot })
	before := listing(t, h)
	etag := request(h, http.MethodGet, pathV2).Header().Get("Etag")
	snapshot = second
	after := listing(t, h)
	for name := range before {
		custom := name == "apis/cnat.example.com/v1alpha1"
		if changed := before[name] != after[name]; changed != custom {
			t.Errorf("%s changed: %v", name, changed)
		}
	}
	if w := request(h, http.MethodGet, pathV2, "If-None-Match", etag); w.Code != http.StatusOK {
		t.Errorf("the changed document: %d", w.Code)
	}

	old := before["apis/cnat.example.com/v1alpha1"]
	w := request(h, http.MethodGet, old)
	if location := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || location != after["apis/cnat.example.com/v1alpha1"] {
		t.Errorf("old address: %d to %q", w.Code, location)
	}
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	h.(*handler).now = func() time.Time { return now }
	w = request(h, http.MethodGet, w.Header().Get("Location"))
	if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "public, immutable" || w.Header().Get("Expires") != "Thu, 02 Jan 2031 03:04:05 GMT" {
		t.Errorf("new address: %d %v", w.Code, w.Header())
	}
	w = request(h, http.MethodGet, "/openapi/v3/apis/apps/v1")
	if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "" || w.Header().Get("Expires") != "" {
		t.Errorf("address without hash: %d %v", w.Code, w.Header())
	}
}

// TestSameContentSameHash keeps the caches of clients valid over a restart.
func TestSameContentSameHash(t *testing.T) {
	a, b := snapshotOf(at("1", nil)), snapshotOf(at("1", nil))
	b.Resources[0], b.Resources[1] = b.Resources[1], b.Resources[0]
	_, one := a.index()
	_, two := b.index()
	if one != two {
		t.Error("the order of the resources changes the hash")
	}
	b = snapshotOf(at("1", nil))
	b.Version = "v1.38.0+kapok"
	if _, three := b.index(); three == one {
		t.Error("another release has the same hash")
	}
}

func TestNotModified(t *testing.T) {
	var made atomic.Int32
	snapshot := snapshotOf(at("1", &made))
	h := New(func() *Snapshot { return snapshot })
	for _, path := range []string{pathV2, pathV3, "/openapi/v3/apis/cnat.example.com/v1alpha1"} {
		etag := request(h, http.MethodGet, path).Header().Get("Etag")
		if unquoted, err := strconv.Unquote(etag); err != nil || unquoted == "" {
			t.Errorf("%s has the tag %s", path, etag)
		}
		h = New(func() *Snapshot { return snapshot }) // nothing is cached
		made.Store(0)
		for header, want := range map[string]int{
			etag: http.StatusNotModified, "W/" + etag: http.StatusNotModified, `"x", ` + etag: http.StatusNotModified, "*": http.StatusNotModified,
		} {
			if w := request(h, http.MethodGet, path, "If-None-Match", header); w.Code != want || w.Body.Len() > 0 {
				t.Errorf("%s with %s: %d, %d bytes", path, header, w.Code, w.Body.Len())
			}
		}
		if made.Load() > 0 {
			t.Errorf("%s was made although the client has it", path)
		}
		if w := request(h, http.MethodGet, path, "If-None-Match", `"x"`); w.Code != http.StatusOK {
			t.Errorf("%s for another tag: %d", path, w.Code)
		}
	}
}

func TestNegotiation(t *testing.T) {
	snapshot := snapshotOf()
	h := New(func() *Snapshot { return snapshot })
	const (
		v2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
		v3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	)
	for _, c := range []struct {
		path, accept, want string
		code               int
	}{
		{pathV2, "", "application/json", 200},
		{pathV2, "*/*", "application/json", 200},
		{pathV2, "application/*", "application/json", 200},
		{pathV2, "application/json", "application/json", 200},
		{pathV2, v2, v2, 200},
		{pathV2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", v2, 200},
		{pathV2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.5, application/json", "application/json", 200},
		{pathV2, "text/html, " + v2, v2, 200},
		{pathV2, v3, "", 406},
		{pathV2, "text/html", "", 406},
		{pathV3, "text/html", "application/json", 200},
		{pathV3 + "/apis/apps/v1", "", "application/json", 200},
		{pathV3 + "/apis/apps/v1", v3, v3, 200},
		{pathV3 + "/apis/apps/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", v3, 200},
		{pathV3 + "/apis/apps/v1", v2, "", 406},
		{pathV3 + "/apis/apps/v2", "", "", 404},
		{pathV3 + "/apis/apps", "", "application/json", 200},
		{"/openapi/v4", "", "text/plain; charset=utf-8", 404},
	} {
		w := request(h, http.MethodGet, c.path, "Accept", c.accept)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.want {
			t.Errorf("%s as %q: %d %q", c.path, c.accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
	if w := request(h, http.MethodPost, pathV2); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := request(h, http.MethodHead, pathV2); w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes of %s", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

// TestKept checks that a document is made once, and not again while its parts are unchanged.
func TestKept(t *testing.T) {
	var made, other atomic.Int32
	one := at("1", &made)
	two := at("1", &other)
	two.Group = "other.example.com"
	snapshot := snapshotOf(one, two)
	h := New(func() *Snapshot { return snapshot })
	path := "/openapi/v3/apis/cnat.example.com/v1alpha1"
	for range 3 {
		request(h, http.MethodGet, path)
	}
	if made.Load() != 1 || other.Load() != 0 {
		t.Errorf("schemas read %d and %d times, want 1 and 0", made.Load(), other.Load())
	}
	protobuf := []string{"Accept", asProtoV2.typ}
	request(h, http.MethodGet, pathV2, protobuf...)
	made.Store(0)
	other.Store(0)
	one.Custom = &Custom{Fingerprint: "2", Schema: one.Custom.Schema}
	snapshot = snapshotOf(one, two)
	request(h, http.MethodGet, pathV2, protobuf...)
	if made.Load() != 1 || other.Load() != 0 {
		t.Errorf("after a change schemas read %d and %d times, want 1 and 0", made.Load(), other.Load())
	}
}

// TestBrokenSchemaIsIsolated checks that a schema that cannot be read affects only its own kind.
func TestBrokenSchemaIsIsolated(t *testing.T) {
	broken := at("1", nil)
	broken.Custom.Schema = func() ([]byte, error) { return []byte(`{"type":`), nil }
	snapshot := snapshotOf(broken)
	h := New(func() *Snapshot { return snapshot })
	for _, path := range []string{pathV2, "/openapi/v3/apis/cnat.example.com/v1alpha1"} {
		w := request(h, http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `com.example.cnat.v1alpha1.At":{"type":"object",`) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
}

// TestUnknownBuiltin describes a kind that is neither custom nor among the definitions as an object
// without known fields.
func TestUnknownBuiltin(t *testing.T) {
	snapshot := snapshotOf(Resource{Group: "apps", Version: "v9", Plural: "nothings", Kind: "Nothing", ListKind: "NothingList", Verbs: everything})
	h := New(func() *Snapshot { return snapshot })
	for _, path := range []string{pathV2, "/openapi/v3/apis/apps/v9"} {
		var document struct {
			Paths map[string]map[string]any
		}
		w := request(h, http.MethodGet, path)
		if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if document.Paths["/apis/apps/v9/nothings/{name}"]["patch"] == nil || strings.Contains(w.Body.String(), `"$ref":"#/definitions/"`) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
}

// TestTogether requests all documents concurrently while resources change.
func TestTogether(t *testing.T) {
	var current atomic.Pointer[Snapshot]
	current.Store(snapshotOf(at("0", nil)))
	h := New(current.Load)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 5 {
				if i == 0 {
					current.Store(snapshotOf(at(strconv.Itoa(n), nil)))
				}
				for _, path := range []string{pathV2, pathV3, "/openapi/v3/api/v1", "/openapi/v3/apis/cnat.example.com/v1alpha1"} {
					if w := request(h, http.MethodGet, path); w.Code != http.StatusOK || w.Body.Len() == 0 {
						t.Errorf("%s: %d", path, w.Code)
					}
				}
			}
		})
	}
	group.Wait()
}
