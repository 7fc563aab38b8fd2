package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
)

func TestConsoleListensLocally(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.com:0", "127.0.0.1", ""} {
		l := look{kubeconfig: kubeconfig, listen: listen}
		if err := l.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "must be a loopback address") {
			t.Errorf("--listen %q: %v", listen, err)
		}
	}
	l := look{kubeconfig: filepath.Join(t.TempDir(), "none"), listen: "127.0.0.1:0"}
	if err := l.run(t.Context(), io.Discard, io.Discard); err == nil {
		t.Error("a kubeconfig that is missing is accepted")
	}
}

// TestPassOn checks that a cluster gets the credentials of the kubeconfig, and none of the
// browser's.
func TestPassOn(t *testing.T) {
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Cookie")+r.Header.Get("Origin")+r.Header.Get("Referer"))
	}))
	defer cluster.Close()
	h, err := passOn(&rest.Config{Host: cluster.URL + "/prefix", BearerToken: "secret"}, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	send := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/pods?limit=1", nil)
		for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
			r.Header.Set(name, "browser")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if got := send().Body.String(); got != "/prefix/api/v1/pods?limit=1 Bearer secret " {
		t.Errorf("the cluster sees %q", got)
	}
	cluster.Close()
	if w := send(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"kind":"Status"`) {
		t.Errorf("without a cluster: %d %s", w.Code, w.Body)
	}
}

// TestNames checks by which names browsers may reach the server.
func TestNames(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	got := namesOf(kapok.ServingOptions{Names: []string{"kapok.example.com", "192.0.2.1", "*.example.org"}})
	if want := strings.ToLower(host) + " kapok.example.com *.example.org"; strings.Join(got, " ") != want {
		t.Errorf("names %q, want %q", got, want)
	}
	if got := namesOf(kapok.ServingOptions{CertFile: "none", KeyFile: "none"}); got != nil {
		t.Errorf("names of a certificate that is missing: %q", got)
	}
}
