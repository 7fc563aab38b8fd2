package aggregate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Documents are the OpenAPI documents of a backend. They are immutable.
type Documents struct {
	// V2 is the OpenAPI v2 document of all group versions of the backend, nil if there is none, and
	// V2Tag its ETag.
	V2    []byte
	V2Tag string
	// V3 has the serverRelativeURL of the OpenAPI v3 document of each group version.
	V3 map[schema.GroupVersion]string
}

const openAPIv3 = "/openapi/v3/"

// documents requests the OpenAPI documents of a backend. A document whose request fails keeps its
// last state.
func (b *backend) documents(ctx context.Context, versions []schema.GroupVersion, last *Documents) *Documents {
	next := &Documents{}
	if last != nil {
		*next = *last
	}
	if answer, err := b.fetch(ctx, strings.TrimSuffix(openAPIv3, "/"), "application/json", ""); err == nil {
		next.V3 = parseIndex(answer, versions)
	}
	answer, err := b.fetch(ctx, "/openapi/v2", "application/json", next.V2Tag)
	switch {
	case err != nil || answer.code == http.StatusNotModified:
	case answer.code == http.StatusOK && json.Valid(answer.body):
		if next.V2, next.V2Tag = answer.body, answer.header.Get("Etag"); next.V2Tag == "" {
			next.V2Tag = fmt.Sprintf("%X", sha256.Sum256(answer.body))
		}
	default:
		next.V2, next.V2Tag = nil, ""
	}
	if last != nil && last.V2Tag == next.V2Tag && maps.Equal(last.V3, next.V3) {
		return last
	}
	return next
}

// parseIndex returns the URLs of the OpenAPI v3 documents of the given group versions. Of the URLs
// in the index only the hash is used, so that a backend cannot direct clients elsewhere.
func parseIndex(answer *document, versions []schema.GroupVersion) map[schema.GroupVersion]string {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if answer.code != http.StatusOK || json.Unmarshal(answer.body, &index) != nil {
		return nil
	}
	all := map[schema.GroupVersion]string{}
	for _, gv := range versions {
		path := strings.TrimPrefix(discoveryPath(gv), "/")
		entry, ok := index.Paths[path]
		if !ok {
			continue
		}
		own := url.URL{Path: openAPIv3 + path}
		if u, err := url.Parse(entry.ServerRelativeURL); err == nil && u.Query().Get("hash") != "" {
			own.RawQuery = url.Values{"hash": {u.Query().Get("hash")}}.Encode()
		}
		all[gv] = own.String()
	}
	return all
}

// OpenAPI returns the OpenAPI documents of the group version's server, and the URL of the v3
// document; "" if there is none.
func (m *Remote) OpenAPI() (documents *Documents, v3 string) {
	if m.documents == nil {
		return &Documents{}, ""
	}
	return m.documents, m.documents.V3[m.GroupVersion]
}
