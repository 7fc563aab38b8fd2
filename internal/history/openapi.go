package history

import (
	"crypto/sha256"
	_ "embed" // for the document
	"fmt"
	"net/http"
	"net/url"
)

// openAPIRoot is the path of the index of OpenAPI v3 documents.
const openAPIRoot = "/openapi/v3"

// openAPI is the OpenAPI v3 document of the group version.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI serves the index and the document, which the aggregator of the server publishes. It
// reports whether the path is one of the two.
func serveOpenAPI(w http.ResponseWriter, path string) bool {
	below := "apis/" + GroupVersion.String()
	document := openAPIRoot + "/" + below
	switch path {
	case openAPIRoot:
		query := url.Values{"hash": {fmt.Sprintf("%X", sha256.Sum256(openAPI))}}
		writeJSON(w, http.StatusOK, map[string]any{"paths": map[string]any{below: map[string]string{"serverRelativeURL": document + "?" + query.Encode()}}})
	case document:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI) // fails if the client has gone
	default:
		return false
	}
	return true
}
