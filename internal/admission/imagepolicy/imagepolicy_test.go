package imagepolicy

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// backend is a webhook. It answers with the texts in turn, the last of which remains, and records
// requests.
type backend struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []string // a text, or a code and a text, separated by a space
	requests []request
}

type request struct{ path, token, body string }

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, request{r.URL.Path, r.Header.Get("Authorization"), strings.TrimSpace(string(body))})
	answer := b.answers[0]
	if len(b.answers) > 1 {
		b.answers = b.answers[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	if text, failed := strings.CutPrefix(answer, "500 "); failed {
		w.WriteHeader(http.StatusInternalServerError)
		answer = text
	}
	io.WriteString(w, answer)
}

func (b *backend) asked() []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// open starts a webhook, and returns the plugin with a kubeconfig for it and further fields of the
// configuration.
func open(t *testing.T, fields string, answers ...string) (*backend, *Plugin) {
	t.Helper()
	b := &backend{answers: answers}
	b.Server = httptest.NewTLSServer(b)
	t.Cleanup(b.Close)
	p, err := New([]byte("imagePolicy: {kubeConfigFile: '" + kubeconfig(t, b.Server) + "', retryBackoff: 1, " + fields + "}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return b, p
}

// kubeconfig writes a kubeconfig for a server.
func kubeconfig(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["w"] = &clientcmdapi.Cluster{Server: s.URL + "/images", CertificateAuthorityData: pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	config.AuthInfos["k"] = &clientcmdapi.AuthInfo{Token: "ours"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "k"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// admitted returns the request that creates a pod in the namespace ns.
func admitted(t *testing.T, subresource, object string) (a *resource.Admitted, audited map[string]string) {
	t.Helper()
	audited = map[string]string{}
	a = &resource.Admitted{
		Request: &resource.Request{
			Definition: &resource.Definition{Plural: "pods", Namespaced: true}, Version: &resource.Version{Name: "v1"},
			Namespace: "ns", Subresource: subresource,
			Annotate: func(key, value string) { audited[key] = value },
		},
		Operation: resource.OperationCreate,
	}
	if err := json.Unmarshal([]byte(object), &a.Object); err != nil {
		t.Fatal(err)
	}
	return a, audited
}

const (
	shop = `{"metadata": {"name": "p", "annotations": {"a": "b", "alpha.image-policy.k8s.io/break-glass": "yes"}}, "spec": {
		"containers": [{"name": "c", "image": "one"}, {"name": "d", "image": "two"}], "initContainers": [{"name": "i", "image": "three"}],
		"ephemeralContainers": [{"name": "e", "image": "four"}]}}`
	yes = `{"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": {"allowed": true}}`
)

// no is a refusal with a reason, and with an annotation.
var no = strings.Replace(yes, "true", `false, "reason": "not signed", "auditAnnotations": {"key": "k1"}`, 1)

func TestReview(t *testing.T) {
	const forbidden = `pods "p" is forbidden: `
	for _, tc := range []struct {
		name, fields, answer, want string
		audited                    map[string]string
		asked                      int // default 1
	}{
		{name: "allowed", answer: yes},
		{name: "allowed, without a kind", answer: `{"status": {"allowed": true}}`},
		{name: "denied", answer: no, want: forbidden + "image policy webhook backend denied one or more images: not signed",
			audited: map[string]string{"imagepolicywebhook.image-policy.k8s.io/key": "k1"}},
		{name: "denied without a reason", answer: `{}`, want: forbidden + "one or more images rejected by webhook backend"},
		{name: "denied although failures are ignored", fields: "defaultAllow: true", answer: no,
			want:    forbidden + "image policy webhook backend denied one or more images: not signed",
			audited: map[string]string{"imagepolicywebhook.image-policy.k8s.io/key": "k1"}},
		{name: "not JSON", answer: "<html>", want: forbidden + "couldn't get version/kind; json parse error: "},
		{name: "another kind", answer: `{"apiVersion": "v1", "kind": "Pod"}`, want: forbidden + `no kind "Pod" is registered for version "v1"`},
		{name: "failed", answer: "500 no", asked: 5, want: forbidden + `an error on the server ("unknown") has prevented the request from succeeding`},
		{name: "failed, ignored", fields: "defaultAllow: true", answer: "500 no", asked: 5,
			audited: map[string]string{"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}},
		{name: "not JSON, ignored", fields: "defaultAllow: true", answer: "<html>",
			audited: map[string]string{"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, p := open(t, tc.fields, tc.answer)
			a, audited := admitted(t, "", shop)
			if !p.Handles(a.Request, a.Operation) {
				t.Fatal("the plugin does not handle pods")
			}
			check(t, p.Validate(t.Context(), a), tc.want)
			if diff := cmp.Diff(tc.audited, audited); diff != "" && len(tc.audited)+len(audited) > 0 {
				t.Error(diff)
			}
			if want := max(tc.asked, 1); len(b.asked()) != want {
				t.Errorf("%d requests, want %d", len(b.asked()), want)
			}
		})
	}
}

// check checks that an error is a rejection whose message starts with want; "" stands for none.
func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		if err != nil {
			t.Errorf("rejected: %v", err)
		}
	case !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want):
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestRequest checks what the webhook gets.
func TestRequest(t *testing.T) {
	for subresource, spec := range map[string]string{
		"":        `{"containers":[{"image":"one"},{"image":"two"},{"image":"three"}],"annotations":{"alpha.image-policy.k8s.io/break-glass":"yes"},"namespace":"ns"}`,
		ephemeral: `{"containers":[{"image":"four"}],"annotations":{"alpha.image-policy.k8s.io/break-glass":"yes"},"namespace":"ns"}`,
	} {
		b, p := open(t, "", yes)
		a, _ := admitted(t, subresource, shop)
		check(t, p.Validate(t.Context(), a), "")
		want := []request{{"/images", "Bearer ours",
			`{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","metadata":{},"spec":` + spec + `,"status":{"allowed":false}}`}}
		if diff := cmp.Diff(want, b.asked(), cmp.AllowUnexported(request{})); diff != "" {
			t.Errorf("subresource %q: %s", subresource, diff)
		}
	}
}

// TestRetry checks that a request waits for a webhook that fails at first, and that a failure is
// not cached.
func TestRetry(t *testing.T) {
	b, p := open(t, "", "500 a", "500 b", yes)
	a, _ := admitted(t, "", shop)
	check(t, p.Validate(t.Context(), a), "")
	if n := len(b.asked()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	b, p = open(t, "", "500 a", "500 a", "500 a", "500 a", "500 a", yes)
	check(t, p.Validate(t.Context(), a), `pods "p" is forbidden: an error on the server ("unknown")`)
	check(t, p.Validate(t.Context(), a), "")
	if n := len(b.asked()); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
}

// TestCache checks that responses are cached by all that the webhook sees, and their annotations
// with them.
func TestCache(t *testing.T) {
	ask := func(t *testing.T, p *Plugin, pod, want string) map[string]string {
		t.Helper()
		a, audited := admitted(t, "", pod)
		check(t, p.Validate(t.Context(), a), want)
		return audited
	}
	const denied = `pods "p" is forbidden: image policy webhook backend denied one or more images: not signed`
	again := strings.Replace(shop, `"a": "b"`, `"a": "c"`, 1) // which the webhook does not see
	glass := strings.Replace(shop, `"yes"`, `"no"`, 1)
	for _, tc := range []struct {
		name, fields, answer, want string
		asked                      int
	}{
		{"allowed", "", yes, "", 2},
		{"denied", "", no, denied, 2},
		{"allowed, not cached", "allowTTL: -1", yes, "", 3},
		{"denied, not cached", "denyTTL: -1", no, denied, 3},
		{"only denials are not cached", "denyTTL: -1", yes, "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, p := open(t, tc.fields, tc.answer)
			first := ask(t, p, shop, tc.want)
			if diff := cmp.Diff(first, ask(t, p, again, tc.want)); diff != "" {
				t.Error(diff)
			}
			ask(t, p, glass, tc.want)
			if n := len(b.asked()); n != tc.asked {
				t.Errorf("%d requests, want %d", n, tc.asked)
			}
		})
	}
}

// TestUnreachable checks the words about a webhook that is down.
func TestUnreachable(t *testing.T) {
	b, p := open(t, "", yes)
	b.Close()
	a, _ := admitted(t, "", shop)
	check(t, p.Validate(t.Context(), a), `pods "p" is forbidden: Post "`+b.URL+`/images?timeout=30s": dial tcp `)
}

func TestHandles(t *testing.T) {
	p := &Plugin{}
	for _, tc := range []struct {
		name, group, plural, subresource string
		op                               resource.Operation
		want                             bool
	}{
		{"create", "", "pods", "", resource.OperationCreate, true},
		{"update", "", "pods", "", resource.OperationUpdate, true},
		{"ephemeral containers", "", "pods", ephemeral, resource.OperationUpdate, true},
		{"delete", "", "pods", "", resource.OperationDelete, false},
		{"status", "", "pods", "status", resource.OperationUpdate, false},
		{"resize", "", "pods", "resize", resource.OperationUpdate, false},
		{"deployments", "apps", "deployments", "", resource.OperationCreate, false},
		{"pods of another group", "metrics.k8s.io", "pods", "", resource.OperationCreate, false},
	} {
		r := &resource.Request{Definition: &resource.Definition{Plural: tc.plural, Group: tc.group}, Subresource: tc.subresource}
		if got := p.Handles(r, tc.op); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestConfiguration(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	file := "imagePolicy:\n  kubeConfigFile: " + kubeconfig(t, s) + "\n"
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tc := range []struct{ name, config, want string }{
		{"least", file, ""},
		{"all", file + "  allowTTL: 2\n  denyTTL: 1800\n  retryBackoff: 300000\n  defaultAllow: true\n", ""},
		{"none", "", "it needs a configuration in the admission control configuration file"},
		{"not YAML", "{", "error converting YAML to JSON: "},
		{"no object", "[]", "error unmarshaling JSON: "},
		{"a typo", file + "  defaultAlow: true\n", `error unmarshaling JSON: while decoding JSON: json: unknown field "defaultAlow"`},
		{"a unit", file + "  allowTTL: 30s\n", "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field"},
		{"out of range", file + "  allowTTL: 1\n  denyTTL: 1801\n  retryBackoff: -2\n",
			"[imagePolicy.allowTTL: Invalid value: 1: must be -1, 0, or from 2 to 1800 seconds, " +
				"imagePolicy.denyTTL: Invalid value: 1801: must be -1, 0, or from 2 to 1800 seconds, " +
				"imagePolicy.retryBackoff: Invalid value: -2: must be -1, 0, or from 1 to 300000 milliseconds]"},
		{"no kubeconfig", "imagePolicy: {}", "imagePolicy.kubeConfigFile: Required value"},
		{"a missing kubeconfig", "imagePolicy: {kubeConfigFile: " + missing + "}",
			"imagePolicy.kubeConfigFile " + missing + ": stat " + missing + ": no such file or directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if _, err := New([]byte(tc.config)); err != nil {
				got = err.Error()
			}
			if (tc.want == "") != (got == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
