package endpoint

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// judge is the parser of Kubernetes.
var judge = request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

func agreesWithJudge(t *testing.T, method string, u *url.URL) {
	t.Helper()
	got, err := ParseInfo(method, u)
	want, wantErr := judge.NewRequestInfo(&http.Request{Method: method, URL: u})
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%s %s: error %v, Kubernetes has %v", method, u, err, wantErr)
	}
	if err != nil {
		return
	}
	type info struct{ Verb, Group, Version, Namespace, Resource, Subresource, Name string }
	a := info{got.Verb, got.Group, got.Version, got.Namespace, got.Resource, got.Subresource, got.Name}
	b := info{want.Verb, want.APIGroup, want.APIVersion, want.Namespace, want.Resource, want.Subresource, want.Name}
	if diff := cmp.Diff(b, a); diff != "" || got.IsResource != want.IsResourceRequest {
		t.Errorf("%s %s: resource %t, Kubernetes %t:\n%s", method, u, got.IsResource, want.IsResourceRequest, diff)
	}
}

func TestParseInfo(t *testing.T) {
	paths := `/ /api /api/ /apis /apis/ /api/v1 /apis/apps /apis/apps/v1 /healthz /healthz/ping /version
		/api/v1/namespaces /api/v1/namespaces/a /api/v1/namespaces/a/status /api/v1/namespaces/a/finalize /api/v1/namespaces/a/pods
		/api/v1/namespaces/a/pods/b /api/v1/namespaces/a/pods/b/status /api/v1/namespaces/a/pods/b/proxy/c/d
		/api/v1/pods /api/v1/pods/ /api/v1/nodes/n /api/v1/nodes/n/status //api//v1//pods /api/v1//
		/apis/apps/v1/deployments /apis/apps/v1/namespaces/a/deployments/b/scale
		/api/v1/watch /api/v1/watch/pods /api/v1/watch/namespaces/a/pods/b /api/v1/proxy/nodes/n /apis/apps/v1/watch/deployments
		/api/v1/pods?watch=1 /api/v1/pods?watch=true /api/v1/pods?watch=false /api/v1/pods?watch=0 /api/v1/pods?watch /api/v1/pods?watch=x
		/api/v1/pods?fieldSelector=metadata.name%3Da /api/v1/pods?watch=1&fieldSelector=metadata.name%3Da
		/api/v1/pods?fieldSelector=metadata.name%21%3Da /api/v1/namespaces/a%2Fb/pods /api/v1/namespaces/a/pods/%2e%2e
		/api/v1/pods?fieldSelector=metadata.name%3Da%2Fb`
	for _, path := range strings.Fields(paths) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			u, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			agreesWithJudge(t, method, u)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add("GET", "/apis/example.com/v1/namespaces/default/widgets/a/status", "watch=1")
	f.Add("DELETE", "/api/v1/watch/pods", "")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		if values, err := url.ParseQuery(query); err != nil || values.Has("limit") || values.Has("timeoutSeconds") || len(values) > 1 {
			return // Kubernetes ignores selectors if another parameter is invalid
		}
		agreesWithJudge(t, method, &url.URL{Path: path, RawQuery: query})
	})
}
