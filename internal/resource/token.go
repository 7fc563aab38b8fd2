package resource

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A token is the content of the continue parameter of a list: the revision of the snapshot and the
// key after which the next page starts, relative to the listed collection, in the format of
// Kubernetes. A revision of -1 means the latest one.
type token struct {
	APIVersion string          `json:"v"`
	Revision   object.Revision `json:"rv"`
	Start      string          `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// encodeToken returns the token of the page after an object.
func encodeToken(at object.Revision, after *object.Object, namespace string) string {
	start := after.Key.Name
	if namespace == "" && after.Key.Namespace != "" {
		start = after.Key.Namespace + "/" + start
	}
	return token{APIVersion: tokenVersion, Revision: at, Start: start + "\x00"}.String()
}

func (t token) String() string {
	data, err := json.Marshal(t)
	if err != nil {
		return "" // a struct of strings and a number can be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// decodeToken decodes the continue parameter.
func decodeToken(s string) (token, error) {
	bad := func(format string, args ...any) (token, error) {
		return token{}, apierrors.NewBadRequest("invalid continue token: continue key is not valid" + fmt.Sprintf(format, args...))
	}
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return bad(": %v", err)
	}
	var t token
	if err := json.Unmarshal(data, &t); err != nil {
		return bad(": %v", strings.Replace(err.Error(), "resource.token", "storage.continueToken", 1))
	}
	switch {
	case t.APIVersion != tokenVersion:
		return bad(": server does not recognize this encoded version %v", t.APIVersion)
	case t.Revision == 0:
		return bad(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return bad(": encoded start key empty (version meta.k8s.io/v1)")
	}
	key := t.Start
	if !strings.HasPrefix(key, "/") {
		key = "/" + key
	}
	if path.Clean(key) != key {
		return bad(": %v", t.Start)
	}
	return t, nil
}

// from returns the namespace and the name at which the page of a token starts.
func (t token) from(namespace string, namespaced bool) (string, string) {
	start := strings.TrimPrefix(t.Start, "/")
	if !namespaced || namespace != "" {
		return namespace, start
	}
	ns, name, _ := strings.Cut(start, "/")
	return ns, name
}
