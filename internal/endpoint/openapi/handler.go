// Package openapi serves the OpenAPI documents of all kinds, built-in and custom: version 2 in one
// document at /openapi/v2, version 3 in one document for each group version below /openapi/v3, both
// as JSON and as protobuf.
//
// A [Snapshot] describes the documents. They are made on first use and kept in a bounded cache.
// Their hashes are computed from the input, so that /openapi/v3 and responses to clients with a
// current document need no document. When a kind changes, only the documents of its group version
// are made again.
//
// The documents are equal to those of Kubernetes, with two differences: DeleteOptions in the
// documents of custom kinds do not list the groups of all built-in kinds, and there are no types
// for CBOR.
//
// The package starts no goroutines. One lock guards the cache; another ensures that one document is
// made at a time.
package openapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
)

const (
	pathV2 = "/openapi/v2"
	pathV3 = "/openapi/v3"
)

// encoding is the encoding of a document.
type encoding struct {
	accept []string // subtypes of application
	typ    string
}

var (
	asJSON    = encoding{[]string{"json"}, "application/json"}
	asProtoV2 = encoding{
		[]string{"com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
	}
	asProtoV3 = encoding{
		[]string{"com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf"},
		"application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
	}
)

type handler struct {
	source func() *Snapshot
	now    func() time.Time
	library
}

// New returns the handler of the documents that source describes. source should return the same
// snapshot as long as nothing has changed.
func New(source func() *Snapshot) http.Handler {
	return &handler{source: source, now: time.Now, library: newLibrary()}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
		return
	}
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == pathV2:
		h.serveV2(w, r)
	case path == pathV3:
		h.serveRoot(w, r)
	case strings.HasPrefix(path, pathV3+"/"):
		h.servePart(w, r, strings.TrimPrefix(path, pathV3+"/"))
	default:
		http.NotFound(w, r)
	}
}

func (h *handler) serveV2(w http.ResponseWriter, r *http.Request) {
	form, ok := negotiate(w, r, asJSON, asProtoV2)
	if !ok {
		return
	}
	snapshot := h.source()
	_, hash := snapshot.index()
	serve(w, r, form.typ, hash, func() ([]byte, error) { return h.v2(snapshot, form.typ == asProtoV2.typ) })
}

// serveRoot lists the documents of version 3. The hash in an address allows clients to cache the
// document without a time limit.
func (h *handler) serveRoot(w http.ResponseWriter, r *http.Request) {
	type document struct {
		URL string `json:"serverRelativeURL"`
	}
	snapshot := h.source()
	parts, hash := snapshot.index()
	serve(w, r, asJSON.typ, hash, func() ([]byte, error) {
		paths := map[string]document{}
		for name, p := range parts {
			paths[name] = document{partURL(p)}
		}
		for _, f := range snapshot.Foreign {
			if f.URL != "" {
				paths[f.Name] = document{f.URL}
			}
		}
		return json.Marshal(map[string]any{"paths": paths})
	})
}

func partURL(p *part) string {
	u := url.URL{Path: pathV3 + "/" + p.name, RawQuery: url.Values{"hash": {p.hash}}.Encode()}
	return u.String()
}

func (h *handler) servePart(w http.ResponseWriter, r *http.Request, name string) {
	parts, _ := h.source().index()
	p := parts[name]
	if p == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	form, ok := negotiate(w, r, asJSON, asProtoV3)
	if !ok {
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != p.hash {
			w.Header().Set("Etag", strconv.Quote(p.hash))
			http.Redirect(w, r, partURL(p), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", h.now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	serve(w, r, form.typ, p.hash, func() ([]byte, error) { return h.v3(p, form.typ == asProtoV3.typ) })
}

// negotiate selects the encoding that the client prefers, or responds with an error if it supports
// none.
func negotiate(w http.ResponseWriter, r *http.Request, forms ...encoding) (encoding, bool) {
	w.Header().Add("Vary", "Accept")
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		for _, form := range forms {
			for _, subtype := range form.accept {
				if clause.SubType == subtype || clause.SubType == "*" {
					return form, true
				}
			}
		}
	}
	w.WriteHeader(http.StatusNotAcceptable)
	return encoding{}, false
}

// serve responds with a document, which is made only if the client does not have it.
func serve(w http.ResponseWriter, r *http.Request, typ, hash string, document func() ([]byte, error)) {
	etag := strconv.Quote(hash)
	w.Header().Set("Etag", etag)
	if knows(r, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content, err := document()
	if err != nil {
		slog.ErrorContext(r.Context(), "openapi document failed", "path", r.URL.Path, "error", err)
		w.Header().Del("Etag")
		w.Header().Del("Cache-Control")
		w.Header().Del("Expires")
		http.Error(w, "the document cannot be built", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", typ)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// knows reports whether the client has the document with the tag.
func knows(r *http.Request, etag string) bool {
	for _, tag := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
