package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An answer is a scripted response to a method and path.
type answer struct {
	on   string // method and path; a path that ends in a slash stands for all below it
	code int
	body string
}

// scripted starts a server with the given responses; all other requests get 404.
func scripted(t *testing.T, answers ...answer) (*rest.Config, *atomic.Int64) {
	var asked atomic.Int64
	mux := http.NewServeMux()
	for _, a := range answers {
		mux.HandleFunc(a.on, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(a.code)
			fmt.Fprint(w, a.body)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, &asked
}

// TestRefused checks the errors about servers that cannot be measured.
func TestRefused(t *testing.T) {
	const (
		crds      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		forbidden = `{"kind":"Status","message":"namespaces is forbidden: User \"eve\" cannot create resource \"namespaces\""}`
	)
	version := answer{"GET /version", 200, `{"gitVersion":"v1.37.1"}`}
	namespace := answer{"POST /api/v1/namespaces", 201, `{}`}
	gone := answer{"DELETE /api/v1/namespaces/", 404, `{}`}
	for _, tc := range []struct {
		name    string
		answers []answer
		want    []string
	}{
		{"no such server", nil, []string{"is not a Kubernetes API server", "GET /version: 404 Not Found"}},
		{"not JSON", []answer{{"GET /version", 200, "<html>"}}, []string{"no server at http://", "GET /version: invalid character '<'"}},
		{"stranger", []answer{{"GET /version", 401, `{"kind":"Status","message":"Unauthorized"}`}}, []string{"does not accept the credentials", "401 Unauthorized"}},
		{"no namespaces", []answer{version, {"POST /api/v1/namespaces", 403, forbidden}}, []string{
			"must be allowed to create and delete namespaces", `403 Forbidden: namespaces is forbidden: User "eve" cannot create`}},
		{"no definitions", []answer{version, namespace, gone, {"POST " + crds, 403, ""}}, []string{
			"must be allowed to create and delete CustomResourceDefinitions", "403 Forbidden"}},
		{"not served", []answer{version, namespace, gone}, []string{
			"serves no CustomResourceDefinitions of apiextensions.k8s.io/v1", "404 Not Found"}},
		{"left behind", []answer{version, namespace, {"DELETE /api/v1/namespaces/", 403, ""}}, []string{
			"serves no CustomResourceDefinitions", "some objects are left: remove them with kubectl delete namespaces,customresourcedefinitions -l kapok.dev/bench=", "403 Forbidden"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config, _ := scripted(t, tc.answers...)
			_, err := Run(t.Context(), Options{Config: config, Scale: Small})
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("lacks %q: %v", want, err)
				}
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		_, err := Run(t.Context(), Options{Config: &rest.Config{Host: s.URL}})
		if err == nil || !strings.HasPrefix(err.Error(), "no server at "+s.URL) {
			t.Error(err)
		}
	})
}

// TestMeasureFails checks that the error of a measure is reported, and the next one is taken.
func TestMeasureFails(t *testing.T) {
	const objects = "/apis/{group}/v1/namespaces/{namespace}/widgets"
	config, _ := scripted(t,
		answer{"GET /version", 200, `{}`},
		answer{"POST /api/v1/namespaces", 201, `{}`},
		answer{"DELETE /api/v1/namespaces/", 404, ``},
		answer{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", 200, `{}`},
		answer{"GET " + objects, 200, `{"metadata":{"resourceVersion":"7"}}`}, // also the response of a watch, which ends at once
		answer{"POST " + objects, 201, `{}`},
		answer{"PATCH " + objects + "/{name}", 200, `{}`},
		answer{"GET " + objects + "/{name}", 500, `{"message":"the disk is gone"}`},
	)
	o := Options{Config: config, Measures: []string{"get", "patch", "watch"}}
	report, err := start(t.Context(), o, tiny(&o))
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Failed(); n != 2 || len(report.Measures) != 3 {
		t.Fatalf("%+v", report.Measures)
	}
	for i, want := range []string{"500 Internal Server Error: the disk is gone", "", "of 3 ended after 0 of 20 changes: EOF"} {
		if got := report.Measures[i].Error; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", report.Measures[i].Name, got, want)
		}
	}
}

// TestComeAgain checks that requests are retried after a 429, and that retries are counted.
func TestComeAgain(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 2 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer s.Close()
	d, err := newDialler(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.do(t.Context(), request{method: "POST", path: "/", body: "x"}); err != nil || asked.Load() != 3 || d.waited.Load() != 2 {
		t.Errorf("%v after %d requests, waited %d times", err, asked.Load(), d.waited.Load())
	}
	asked.Store(0)
	if err := c.do(t.Context(), request{method: "GET", path: "/", impatient: true}); !refusedWith(err, 429) || d.waited.Load() != 2 {
		t.Errorf("without retries the error is %v", err)
	}
	asked.Store(-1 << 40) // 429 for all further requests
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.do(ctx, request{method: "POST", path: "/"}); err == nil {
		t.Error("a request that always gets 429 succeeds")
	}
}
