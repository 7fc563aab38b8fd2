package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A connection to another program that times out is no timeout of the request.
func TestTimeoutElsewhere(t *testing.T) {
	dialer := net.Dialer{Deadline: time.Unix(1, 0)}
	_, err := dialer.DialContext(t.Context(), "tcp", "192.0.2.1:10250")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error of a dial that times out: %v", err)
	}
	c := &call{h: &Handler{log: slog.New(slog.DiscardHandler)}, r: httptest.NewRequest("GET", "/", nil)}
	status := c.statusOf(fmt.Errorf("Get \"https://node:10250/\": %w", err))
	if want := `Get "https://node:10250/": dial tcp 192.0.2.1:10250: i/o timeout`; status.Code != http.StatusInternalServerError || status.Message != want {
		t.Errorf("got %d %q, want 500 %q", status.Code, status.Message, want)
	}
}

// The messages are those of kube-apiserver 1.37.
func TestErrors(t *testing.T) {
	s := newServer(t, func(o *Options) { o.MaxBody = 1000 })
	s.must(201, "POST", widgetPath, widget("a", ""))
	s.must(201, "POST", configMapPath, configMap("a", ""))
	const text = "404 page not found\n"
	tests := []struct {
		request string // method and path
		body    string
		headers string // name: value, one
		code    int
		reason  metav1.StatusReason // "" for plain text
		message string              // of the Status, or the text
	}{
		{request: "GET /nothing", code: 404, message: text},
		{request: "GET /apis/nothing.com", code: 404, message: text},
		{request: "GET /apis/nothing.com/v1", code: 404, message: text},
		{request: "GET /apis/nothing.com/v1/widgets", code: 404, message: text},
		{request: "GET /apis/example.com/v1/gadgets", code: 404, message: text},
		{request: "GET /apis/example.com/v7/widgets", code: 404, message: text},
		{request: "GET /apis/example.com/v1/widgets/a", code: 404, message: text},
		{request: "POST /apis/example.com/v1/widgets", code: 404, message: text},
		{request: "GET /api/v2", code: 404, reason: "NotFound", message: "the server could not find the requested resource"},
		{request: "GET /api/v1/gadgets", code: 404, reason: "NotFound", message: "the server could not find the requested resource"},
		{request: "GET /api/v1/configmaps/a", code: 404, reason: "NotFound", message: "the server could not find the requested resource"},
		{request: "GET /api/v1/namespaces/default/namespaces", code: 404, reason: "NotFound", message: "the server could not find the requested resource"},
		{request: "GET " + configMapPath + "/a/status", code: 404, reason: "NotFound", message: "the server could not find the requested resource"},
		{request: "GET " + configMapPath + "/b", code: 404, reason: "NotFound", message: `configmaps "b" not found`},
		{request: "GET " + widgetPath + "/b", code: 404, reason: "NotFound", message: `widgets.example.com "b" not found`},
		{request: "GET " + widgetPath + "/a/log", code: 404, reason: "NotFound", message: `widgets.example.com "a" not found`},

		{request: "POST /api/v1/configmaps", code: 405, reason: "MethodNotAllowed", message: "the server does not allow this method on the requested resource"},
		{request: "DELETE /api/v1/namespaces", code: 405, reason: "MethodNotAllowed", message: "the server does not allow this method on the requested resource"},
		{request: "GET /api/v1/namespaces/default/finalize", code: 405, reason: "MethodNotAllowed", message: "the server does not allow this method on the requested resource"},
		{request: "HEAD " + configMapPath, code: 405, reason: "MethodNotAllowed", message: "the server does not allow this method on the requested resource"},
		{request: "OPTIONS " + widgetPath, code: 405, reason: "MethodNotAllowed", message: ` is not supported on resources of kind "widgets.example.com"`},
		{request: "POST " + widgetPath + "/a/status", code: 405, reason: "MethodNotAllowed", message: `create is not supported on resources of kind "widgets.example.com"`},
		{request: "PUT " + widgetPath, code: 400, reason: "BadRequest", message: "name must be provided"},

		{request: "GET " + configMapPath + "/a", headers: "Accept: text/html", code: 406, reason: "NotAcceptable", message: "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{request: "GET " + widgetPath + "/a", headers: "Accept: text/html", code: 406, reason: "NotAcceptable", message: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{request: "GET " + widgetPath + "/a", headers: "Accept: application/vnd.kubernetes.protobuf", code: 406, reason: "NotAcceptable", message: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{request: "GET " + widgetPath + "?watch=1", headers: "Accept: application/yaml", code: 406, reason: "NotAcceptable", message: "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"},
		{request: "POST " + widgetPath, body: "{}", headers: "Content-Type: text/plain", code: 415, reason: "UnsupportedMediaType", message: "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{request: "PATCH " + widgetPath + "/a", body: "{}", headers: "Content-Type: application/strategic-merge-patch+json", code: 415, reason: "UnsupportedMediaType", message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"},
		{request: "PATCH " + configMapPath + "/a", body: "{}", headers: "Content-Type: application/json", code: 415, reason: "UnsupportedMediaType", message: "415: Unsupported Media Type"},
		{request: "POST " + widgetPath, body: strings.Repeat(" ", 1001), code: 413, reason: "RequestEntityTooLarge", message: "Request entity too large: limit is 1000"},

		{request: "GET " + widgetPath + "?limit=x", code: 400, reason: "BadRequest", message: `strconv.ParseInt: parsing "x": invalid syntax`},
		{request: "GET " + widgetPath + "?labelSelector=a%3D%3D%3D", code: 400, reason: "BadRequest", message: "unable to parse requirement: found '=', expected: identifier"},
		{request: "GET " + widgetPath + "?fieldSelector=a", code: 400, reason: "BadRequest", message: `invalid selector: 'a'; can't understand 'a'`},
		{request: "GET " + widgetPath + "?resourceVersionMatch=Exact", code: 422, reason: "Invalid", message: `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		{request: "POST " + widgetPath + "?dryRun=Some", body: "{}", code: 422, reason: "Invalid", message: `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{request: "POST " + widgetPath + "?fieldValidation=Maybe", body: "{}", code: 422, reason: "Invalid", message: `CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"`},
		{request: "PATCH " + widgetPath + "/a", body: "{}", headers: "Content-Type: application/apply-patch+yaml", code: 422, reason: "Invalid", message: `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
		{request: "DELETE " + widgetPath + "/a?propagationPolicy=Sometimes", code: 422, reason: "Invalid", message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sometimes": supported values: "Foreground", "Background", "Orphan", "nil"`},
		{request: "DELETE " + widgetPath + "/a", body: `{"kind":"Other","apiVersion":"v1"}`, code: 400, reason: "BadRequest", message: `no kind "Other" is registered for version "v1" in scheme`},
		{request: "GET " + widgetPath + "/a?export=1", code: 400, reason: "BadRequest", message: "the export parameter, deprecated since v1.14, is no longer supported"},
		{request: "GET " + widgetPath + "?timeout=soon", code: 400, reason: "BadRequest", message: `invalid timeout specified in the request URL - time: invalid duration "soon"`},
		{request: "GET " + widgetPath + "/a?resourceVersion=999&timeout=1ms", code: 504, reason: "Timeout", message: "Timeout: request did not complete within the allotted timeout"},
		{request: "PATCH " + widgetPath + "/a", body: "{", headers: "Content-Type: application/merge-patch+json", code: 400, reason: "BadRequest", message: "invalid JSON patch"},
		{request: "PATCH " + widgetPath + "/a?fieldManager=m", body: "[", headers: "Content-Type: application/apply-patch+yaml", code: 400, reason: "BadRequest", message: "error encoding patch: yaml: line 1: did not find expected node content"},
		{request: "POST " + widgetPath, body: "# nothing", headers: "Content-Type: application/yaml", code: 400, reason: "BadRequest", message: "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '# nothing' (23206e6f7468696e67)"},
		{request: "POST " + widgetPath, body: ": : :", headers: "Content-Type: application/yaml", code: 400, reason: "BadRequest", message: "the object provided is unrecognized (must be of type Widget): yaml: "},
		{request: "GET //api/v1/configmaps", code: 404, message: text},
		{request: "GET " + widgetPath + "?fieldSelector=metadata.name%3Da,metadata.name%3Da", code: 200},
		{request: "GET /api/v1/watch", code: 500, message: "Internal Server Error: \"/api/v1/watch\": failed to create RequestInfo: unable to determine kind and namespace from url, /api/v1/watch\n"},

		{request: "GET /apis", headers: "Authorization: Bearer wrong", code: 401, reason: "Unauthorized", message: "Unauthorized"},
		{request: "GET /apis", headers: "Authorization: ", code: 403, reason: "Forbidden", message: `forbidden: User "system:anonymous" cannot get path "/apis"`},
		{request: "GET " + widgetPath, headers: "Authorization: ", code: 403, reason: "Forbidden", message: `widgets.example.com is forbidden: User "system:anonymous" cannot list resource "widgets" in API group "example.com" in the namespace "default"`},
	}
	for _, test := range tests {
		method, path, _ := strings.Cut(test.request, " ")
		name, value, _ := strings.Cut(test.headers, ": ")
		w := s.do(method, path, test.body, name, value)
		if w.Code != test.code {
			t.Errorf("%s: %d, want %d: %s", test.request, w.Code, test.code, w.Body)
			continue
		}
		if test.code == 200 {
			continue
		}
		if test.reason == "" {
			if got := w.Body.String(); got != test.message {
				t.Errorf("%s: %q, want %q", test.request, got, test.message)
			}
			continue
		}
		status := statusIn(t, w)
		if status.Reason != test.reason || !strings.HasPrefix(status.Message, test.message) || status.Kind != "Status" || int(status.Code) != test.code {
			t.Errorf("%s:\n got %s %s\nwant %s %s", test.request, status.Reason, status.Message, test.reason, test.message)
		}
	}
}

// statusIn decodes a Status in its encoding.
func statusIn(t *testing.T, w *httptest.ResponseRecorder) metav1.Status {
	t.Helper()
	var status metav1.Status
	switch contentType := w.Header().Get("Content-Type"); contentType {
	case contentTypeProtobuf:
		status = decodeProtobuf[metav1.Status](t, w.Body.String(), "v1 Status")
		status.Kind = "Status"
	case contentTypeYAML, contentTypeJSON:
		if err := yaml.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("a Status of type %s: %s", contentType, w.Body)
	}
	return status
}

func TestHeaders(t *testing.T) {
	s := newServer(t)
	w := s.do("GET", "/apis", "", "Audit-ID", "mine")
	for name, want := range map[string]string{"Audit-Id": "mine", "Cache-Control": "no-cache, private", "Content-Type": "application/json"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if s.do("GET", "/apis", "").Header().Get("Audit-Id") == "" {
		t.Error("no Audit-Id")
	}
	w = s.do("GET", "/apis", "", "Authorization", "")
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("403 with X-Content-Type-Options %q", got)
	}
}

func TestPanic(t *testing.T) {
	broken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })
	s := newServer(t, func(o *Options) { o.OpenAPI = broken })
	if text := s.must(500, "GET", "/openapi/v2", ""); text != "This request caused apiserver to panic. Look in the logs for details.\n" {
		t.Errorf("after a panic: %q", text)
	}
	s.must(200, "GET", "/apis", "")

	half := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "half of")
		panic("broken")
	})
	s = newServer(t, func(o *Options) { o.OpenAPI = half })
	defer func() {
		if reason := recover(); reason != http.ErrAbortHandler {
			t.Errorf("after half an answer: panic %v", reason)
		}
	}()
	s.do("GET", "/openapi/v2", "")
}

// A request that panics has an audit event.
func TestPanicIsAudited(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	auditor, err := audit.New(audit.Options{PolicyFile: policy, LogPath: log}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	broken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })
	s := newServer(t, func(o *Options) { o.OpenAPI, o.Audit = broken, auditor })
	s.must(500, "GET", "/openapi/v2", "")
	if err := auditor.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "\n") != 4 || !strings.Contains(string(text), `"stage":"Panic"`) || !strings.Contains(string(text), "APIServer panic'd: broken") {
		t.Errorf("the audit says\n%s", text)
	}
}

func TestLimit(t *testing.T) {
	limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true, MaxRequestsInFlight: 1}})
	s := newServer(t, func(o *Options) { o.Limiter = limiter })
	a := &authz.Attributes{User: &authn.User{Name: "x"}, Verb: "get"}
	pass, _ := limiter.Enter(t.Context(), &fairness.Request{Attributes: a, Reads: true})
	w := s.do("GET", "/healthz", "", "Authorization", "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n" {
		t.Errorf("beyond the limit: %d %s", w.Code, w.Body)
	}
	s.must(200, "GET", "/healthz", "")
	pass.Leave()
	if w := s.do("GET", "/healthz", "", "Authorization", ""); w.Code != 200 {
		t.Errorf("within the limit: %d %s", w.Code, w.Body)
	}
}

// TestClassification checks the headers with the schema and level of a request.
func TestClassification(t *testing.T) {
	limiter := fairness.New(fairness.Config{})
	defer limiter.Close()
	s := newServer(t, func(o *Options) { o.Limiter = limiter })
	for _, w := range []*httptest.ResponseRecorder{
		s.do("GET", "/api", ""), s.do("GET", "/nowhere", ""), s.do("GET", "/api", "", "Authorization", ""),
	} {
		for _, name := range []string{headerFlowSchema, headerPriorityLevel} {
			if _, there := w.Header()[name]; !there {
				t.Errorf("%d: no header %s", w.Code, name)
			}
		}
	}
	if reading, writing := limiter.InFlight(); reading != 0 || writing != 0 {
		t.Errorf("%d readers and %d writers are left", reading, writing)
	}
}

// permitAll permits all requests of all users.
type permitAll struct{}

func (permitAll) Authorize(context.Context, *authz.Attributes) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}

// TestTooManyWatches rejects a second watch of a user, but not one of another user.
func TestTooManyWatches(t *testing.T) {
	limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true, MaxWatchesPerUser: 1}})
	s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
	watch := func(user string) *httptest.ResponseRecorder {
		return s.do("HEAD", widgetPath+"?watch=1", "", "Impersonate-User", user)
	}
	forget, err := limiter.Watch(&authz.Attributes{User: &authn.User{Name: "bob"}})
	if err != nil {
		t.Fatal(err)
	}
	w := watch("bob")
	if text := `user \"bob\" has 1 watches open`; w.Code != 429 || w.Header().Get("Retry-After") != "10" || !strings.Contains(w.Body.String(), text) {
		t.Errorf("bob's second watch: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := watch("alice"); w.Code != 200 {
		t.Errorf("alice's first watch: %d %s", w.Code, w.Body)
	}
	s.must(200, "HEAD", widgetPath+"?watch=1", "") // administrators have no limit
	forget()
	for range 2 { // one after the other
		if w := watch("bob"); w.Code != 200 {
			t.Errorf("bob's only watch: %d %s", w.Code, w.Body)
		}
	}
}

// TestStrangersKeepNoConnection closes HTTP/2 connections of unauthenticated clients, and no
// others, after each response.
func TestStrangersKeepNoConnection(t *testing.T) {
	s := newServer(t)
	for authorization, want := range map[string]string{"": "close", "Bearer wrong": "close", "Bearer " + token: ""} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", nil)
		r.Header.Set("Authorization", authorization)
		r.ProtoMajor, r.ProtoMinor = 2, 0
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("%q: %d, Connection: %q, want %q", authorization, w.Code, got, want)
		}
	}
}
