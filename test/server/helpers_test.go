package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// raw sends requests unchanged, without a client library.
type raw struct {
	testing.TB
	server *kapok.Server
	client *http.Client
}

func startRaw(t testing.TB, o kapok.Options) *raw {
	t.Helper()
	server, err := kapok.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &raw{t, server, client}
}

func (r *raw) do(method, path, body string, headers ...string) (int, string) {
	r.Helper()
	req, err := http.NewRequest(method, "http://kapok"+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (r *raw) must(code int, method, path, body string, headers ...string) string {
	r.Helper()
	got, text := r.do(method, path, body, headers...)
	if got != code {
		r.Fatalf("%s %s: %d, want %d: %.500s", method, path, got, code, text)
	}
	return text
}

func (r *raw) wait(what string, done func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("timed out waiting for %s", what)
		}
	}
}

const (
	crds       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	foosCRD    = crds + "/foos.example.com"
	foos       = "/apis/example.com/v1/namespaces/default/foos"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// fooVersions creates a definition that accepts any objects.
func (r *raw) fooVersions(versions ...string) {
	r.Helper()
	var stated []string
	for i, v := range versions {
		stated = append(stated, fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, v, i == 0))
	}
	r.must(201, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[`+strings.Join(stated, ",")+`]}}`)
	r.established()
}

// established waits until foos are served by their present definition, and its status no longer
// changes, because each change restarts writes. That foos are served is not enough: an older
// definition of that name can serve them.
func (r *raw) established() {
	r.Helper()
	r.wait("the definition to be established", func() bool {
		return strings.Contains(r.must(200, "GET", foosCRD, ""), `"status":"True","type":"Established"`)
	})
}

func foo(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":%q}%s}`, name, rest)
}

// typed starts a server and returns clients that use protobuf, as most do.
func typed(t *testing.T, options kapok.Options) (*kapok.Server, *kubernetes.Clientset) {
	t.Helper()
	server, err := kapok.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	config := server.Config()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return server, clients
}

// clientOf returns a client that impersonates another user.
func clientOf(server *kapok.Server, user string, groups ...string) *kubernetes.Clientset {
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return kubernetes.NewForConfigOrDie(config)
}

// eventually waits in a bubble until all goroutines are idle, and then checks a condition.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	synctest.Wait()
	if err := check(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// until waits until a condition holds.
func until(t *testing.T, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
