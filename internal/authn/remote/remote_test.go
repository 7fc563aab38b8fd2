package remote

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// webhook responds with code and text, and counts requests.
type webhook struct {
	*httptest.Server
	code  int
	text  string
	asked atomic.Int32
	last  atomic.Pointer[http.Request]
	body  atomic.Pointer[[]byte]
}

func (w *webhook) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.asked.Add(1)
	body, _ := io.ReadAll(r.Body)
	w.last.Store(r)
	w.body.Store(&body)
	if w.code != 0 {
		rw.WriteHeader(w.code)
	}
	io.WriteString(rw, w.text)
}

// open starts a webhook, and returns a Reviewer that calls it.
func open(t *testing.T, version string) (*webhook, *Reviewer) {
	t.Helper()
	w := &webhook{}
	w.Server = httptest.NewTLSServer(w)
	t.Cleanup(w.Close)
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	config := clientcmdapi.NewConfig()
	config.Clusters["w"] = &clientcmdapi.Cluster{Server: w.URL + "/authenticate", CertificateAuthorityData: pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})}
	config.AuthInfos["k"] = &clientcmdapi.AuthInfo{Token: "ours"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "k"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{ConfigFile: file, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return w, r
}

func TestReview(t *testing.T) {
	const yes = `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"authenticated": true,
		"user": {"username": "alice", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}}, "audiences": ["b", "c"]}}`
	alice := &authn.User{Name: "alice", UID: "7", Groups: []string{"dev", "system:authenticated"}, Extra: map[string][]string{"k": {"v"}}}
	for _, tc := range []struct {
		name, text string
		version    string // default v1
		code       int
		wanted     []string
		want       *authn.User
		audiences  []string
		err        string
	}{
		{name: "known", text: yes, want: alice},
		{name: "known, one of the audiences", text: yes, wanted: []string{"a", "b"}, want: alice, audiences: []string{"b"}},
		{name: "another audience", text: yes, wanted: []string{"a"}},
		{name: "nothing of audiences", text: strings.Replace(yes, `["b", "c"]`, "[]", 1), wanted: []string{"a"}},
		{name: "older version", version: "v1beta1", text: strings.Replace(yes, "k8s.io/v1", "k8s.io/v1beta1", 1), want: alice},
		{name: "unknown", text: `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"user": {"username": "alice"}}}`},
		{name: "refused", text: `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"error": "too old"}}`, err: "too old"},
		{name: "another version", text: strings.Replace(yes, "k8s.io/v1", "k8s.io/v1beta1", 1), err: `want a TokenReview of authentication.k8s.io/v1`},
		{name: "another kind", text: `{"apiVersion": "v1", "kind": "Status"}`, err: `the webhook responds with a "Status" of "v1"`},
		{name: "nothing", text: `{}`, err: "want a TokenReview"},
		{name: "garbage", text: `<html>`, err: "invalid character"},
		{name: "forbidden", code: 403, text: yes, err: "the webhook responds with 403 Forbidden"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			version := tc.version
			if version == "" {
				version = "v1"
			}
			w, r := open(t, version)
			w.code, w.text = tc.code, tc.text
			got, audiences, err := r.AuthenticateToken(t.Context(), "secret", tc.wanted)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains the token: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.audiences, audiences); diff != "" {
				t.Error(diff)
			}
			var sent map[string]any
			if err := json.Unmarshal(*w.body.Load(), &sent); err != nil {
				t.Fatal(err)
			}
			if got := sent["apiVersion"]; got != "authentication.k8s.io/"+version {
				t.Errorf("sent %v", got)
			}
			if spec, _ := sent["spec"].(map[string]any); spec["token"] != "secret" {
				t.Errorf("sent %v", spec)
			}
			if last := w.last.Load(); last.URL.Path != "/authenticate" || last.Header.Get("Authorization") != "Bearer ours" {
				t.Errorf("sent to %s with %s", last.URL, last.Header)
			}
		})
	}
}

// TestRemember checks that results are cached by token and audiences.
func TestRemember(t *testing.T) {
	w, r := open(t, "v1")
	w.text = `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"authenticated": true, "user": {"username": "a"}, "audiences": ["x", "y"]}}`
	m := authn.Remember(r, time.Hour, 0)
	ask := func(token string, wanted ...string) {
		t.Helper()
		if u, _, err := m.AuthenticateToken(t.Context(), token, wanted); err != nil || u == nil {
			t.Fatalf("got %v, %v", u, err)
		}
	}
	for range 3 {
		ask("a")
		ask("b")
		ask("a", "x")
		ask("a", "y")
	}
	if n := w.asked.Load(); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(Options{ConfigFile: "nowhere", Version: "v2"}); err == nil || !strings.Contains(err.Error(), `unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1"`) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(Options{ConfigFile: filepath.Join(t.TempDir(), "nowhere"), Version: "v1"}); err == nil {
		t.Error("Open accepts a missing file")
	}
	file := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{ConfigFile: file, Version: "v1"}); err == nil {
		t.Error("Open accepts an empty file")
	}
}
