package server_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestAbsentSubresources checks the errors of subresources that need nodes, for existing objects
// and for absent ones.
func TestAbsentSubresources(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	pods := "/api/v1/namespaces/default/pods"
	r.must(201, "POST", pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`, "Content-Type", "application/json")
	for _, tc := range []struct{ method, path, want string }{
		{"GET", pods + "/a/log", "kapok: the pod does not run"},
		{"POST", pods + "/a/exec?command=ls", "kapok: the pod does not run"},
		{"GET", pods + "/a/proxy/x/y", "kapok: the pod does not run"},
		{"GET", pods + "/b/log", `pods \"b\" not found`},
		{"GET", "/api/v1/namespaces/default/services/kubernetes/proxy", "kapok: there is nothing to proxy to"},
		{"GET", "/api/v1/nodes/a/proxy", `nodes \"a\" not found`},
		{"GET", "/api/v1/pods/a/log", "the server could not find the requested resource"},
		{"GET", pods + "/a/logs", "the server could not find the requested resource"},
	} {
		if text := r.must(404, tc.method, tc.path, ""); !strings.Contains(text, tc.want) {
			t.Errorf("%s %s: %s", tc.method, tc.path, text)
		}
	}
}
