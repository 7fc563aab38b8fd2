package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// reviewOf returns an AdmissionReview of v1 with a request with the uid u.
func reviewOf(request string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"` + request + `}}`
}

// post sends a body to a handler, and returns the response, which must be a review.
func post(t testing.TB, hook http.Handler, contentType string, body io.Reader) admissionv1.AdmissionReview {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hook", body)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatalf("the answer %q: %v", w.Body, err)
	}
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || review.Response == nil || review.Response.Result == nil {
		t.Fatalf("got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	return review
}

func quiet(hook *Webhook) *Webhook {
	hook.log = logr.Discard().WithName("") // Discard has no sink
	hook.LogConstructor = func(logr.Logger, *Request) logr.Logger { return logr.Discard() }
	return hook
}

func TestReviews(t *testing.T) {
	hook := quiet(&Webhook{Handler: HandlerFunc(func(ctx context.Context, req Request) Response {
		switch req.Name {
		case "panic":
			panic("no such thing")
		case "unspeakable":
			return Patched("", JSONPatchOp{Operation: "add", Path: "/x", Value: math.Inf(1)})
		case "patched":
			return Patched("as you like", JSONPatchOp{"add", "/x", nil}, JSONPatchOp{"remove", "/y", nil}).WithWarnings("careful")
		case "silent":
			return Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
		}
		return Denied("not " + req.Name)
	})})
	tests := map[string]struct {
		contentType string // default application/json
		body        string
		version     string // of the response; default v1
		uid         types.UID
		allowed     bool
		code        int32
		message     string
		patch       string
	}{
		"denied":                  {body: reviewOf(`,"name":"a"`), uid: "u", code: 403, message: "not a"},
		"v1beta1":                 {body: strings.Replace(reviewOf(``), "/v1", "/v1beta1", 1), version: "v1beta1", uid: "u", code: 403, message: "not "},
		"no version":              {body: `{"request":{"uid":"u"}}`, uid: "u", code: 403, message: "not "},
		"charset":                 {contentType: "application/json; charset=utf-8", body: reviewOf(``), uid: "u", code: 403},
		"empty request":           {body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`, code: 403},
		"patched":                 {body: reviewOf(`,"name":"patched"`), uid: "u", allowed: true, code: 200, message: "as you like", patch: `[{"op":"add","path":"/x","value":null},{"op":"remove","path":"/y"}]`},
		"silent":                  {body: reviewOf(`,"name":"silent"`), uid: "u", allowed: true, code: 200},
		"panic":                   {body: reviewOf(`,"name":"panic"`), uid: "u", code: 500, message: "panic: no such thing [recovered]"},
		"no JSON for a patch":     {body: reviewOf(`,"name":"unspeakable"`), uid: "u", code: 500, message: "encoding the patch"},
		"no body":                 {code: 400, message: "request body is empty"},
		"no JSON":                 {body: "}", code: 400, message: "decoding the AdmissionReview"},
		"JSON of another kind":    {body: "[]", code: 400, message: "decoding the AdmissionReview"},
		"a field of another type": {body: reviewOf(`,"name":5`), uid: "u", code: 400, message: "decoding the AdmissionReview"},
		"names in other case":     {body: strings.Replace(reviewOf(``), "request", "Request", 1), code: 400, message: "no request"},
		"no content type":         {contentType: "-", body: reviewOf(``), code: 400, message: "contentType=, expected application/json"},
		"YAML":                    {contentType: "application/yaml", body: reviewOf(``), code: 400, message: "contentType=application/yaml, expected application/json"},
		"another version":         {body: strings.Replace(reviewOf(``), "/v1", "/v2", 1), uid: "u", code: 400, message: `version "admission.k8s.io/v2" is not supported`},
		"another kind":            {body: strings.Replace(reviewOf(``), "AdmissionReview", "Pod", 1), uid: "u", code: 400, message: `kind "Pod" is not supported`},
		"no request":              {body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, code: 400, message: "no request"},
		"v1beta1 without one":     {body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}`, version: "v1beta1", code: 400, message: "no request"},
		"v1beta1 of another type": {body: strings.Replace(reviewOf(`,"name":5`), "/v1", "/v1beta1", 1), version: "v1beta1", uid: "u", code: 400, message: "decoding the AdmissionReview"},
		"v1beta1, another kind":   {body: strings.NewReplacer("/v1", "/v1beta1", "AdmissionReview", "Pod").Replace(reviewOf(``)), version: "v1beta1", uid: "u", code: 400, message: `kind "Pod" is not supported`},
		"null":                    {body: `null`, code: 400, message: "no request"},
		"too large":               {body: strings.Repeat(" ", maxAdmissionReview) + reviewOf(``), code: 413, message: "too large; limit is 7340032 bytes"},
		"as large as can be":      {body: strings.Repeat(" ", maxAdmissionReview-len(reviewOf(``))) + reviewOf(``), uid: "u", code: 403},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			body := io.Reader(http.NoBody)
			if test.body != "" {
				body = strings.NewReader(test.body)
			}
			switch test.contentType {
			case "":
				test.contentType = "application/json"
			case "-":
				test.contentType = ""
			}
			review := post(t, hook, test.contentType, body)
			resp := review.Response
			if test.version == "" {
				test.version = "v1"
			}
			if review.APIVersion != "admission.k8s.io/"+test.version || review.Kind != "AdmissionReview" {
				t.Errorf("got %s %s, want version %s", review.APIVersion, review.Kind, test.version)
			}
			if resp.UID != test.uid || resp.Allowed != test.allowed || resp.Result.Code != test.code || string(resp.Patch) != test.patch {
				t.Errorf("got %+v, %+v", resp, resp.Result)
			}
			if (resp.PatchType != nil) != (test.patch != "") {
				t.Errorf("got patch type %v", resp.PatchType)
			}
			contains(t, "message", resp.Result.Message, test.message)
		})
	}
}

// TestBrokenBody reads bodies that fail.
func TestBrokenBody(t *testing.T) {
	hook := quiet(&Webhook{Handler: HandlerFunc(func(context.Context, Request) Response { return Allowed("") })})
	resp := post(t, hook, "application/json", io.MultiReader(strings.NewReader(`{"request":`), broken{})).Response
	if resp.Allowed || resp.Result.Code != 400 || !strings.Contains(resp.Result.Message, "the line is dead") {
		t.Errorf("got %+v", resp.Result)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the line is dead") }

// TestPanicThatIsNotRecovered checks that panics that are not recovered reach the HTTP server, and
// are counted nevertheless.
func TestPanicThatIsNotRecovered(t *testing.T) {
	metrics := NewMetrics()
	hook := quiet(&Webhook{Handler: HandlerFunc(func(context.Context, Request) Response { panic("as it comes") })}).WithRecoverPanic(false)
	served, err := StandaloneWebhook(hook, StandaloneOptions{MetricsPath: "/hook", Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "as it comes" {
			t.Errorf("recovered %v", p)
		}
		if n := testutil.ToFloat64(metrics.panics); n != 1 {
			t.Errorf("%v panics are counted, want 1", n)
		}
	}()
	post(t, served, "application/json", strings.NewReader(reviewOf(``)))
}

func TestStandaloneWebhook(t *testing.T) {
	if _, err := StandaloneWebhook(&Webhook{}, StandaloneOptions{}); err == nil {
		t.Error("a webhook without a handler is accepted")
	}
	metrics := NewMetrics()
	hook := &Webhook{Handler: HandlerFunc(func(context.Context, Request) Response { return Allowed("") })}
	served, err := StandaloneWebhook(hook, StandaloneOptions{Logger: logr.New(nil), MetricsPath: "/hook", Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		post(t, served, "application/json", strings.NewReader(reviewOf(``)))
	}
	want := `
# HELP controller_runtime_webhook_requests_total Number of requests to webhooks, by path and HTTP status code.
# TYPE controller_runtime_webhook_requests_total counter
controller_runtime_webhook_requests_total{code="200",webhook="/hook"} 3
controller_runtime_webhook_requests_total{code="500",webhook="/hook"} 0
`
	if err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "controller_runtime_webhook_requests_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(metrics, "controller_runtime_webhook_latency_seconds", "controller_runtime_webhook_requests_in_flight"); n != 2 {
		t.Errorf("got %d series of latency and requests in flight, want 2", n)
	}
	if problems, err := testutil.CollectAndLint(metrics); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestContextOfHandler checks that the handler's context is that of the HTTP request, with the
// values that WithContextFunc adds, and ends with it.
func TestContextOfHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		hook := quiet(&Webhook{
			Handler: HandlerFunc(func(ctx context.Context, req Request) Response {
				<-ctx.Done()
				return Denied(ctx.Value(key{}).(string) + ": " + ctx.Err().Error())
			}),
			WithContextFunc: func(ctx context.Context, r *http.Request) context.Context {
				return context.WithValue(ctx, key{}, r.URL.Path)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/slow", strings.NewReader(reviewOf(``)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			hook.ServeHTTP(w, r)
		}()
		synctest.Wait()
		if w.Body.Len() > 0 {
			t.Errorf("the handler answered before the end: %s", w.Body)
		}
		cancel()
		<-done
		contains(t, "answer", w.Body.String(), "/slow: context canceled")
	})
}

func TestRequestFromContext(t *testing.T) {
	if _, err := RequestFromContext(t.Context()); err == nil {
		t.Error("a context without a request has one")
	}
	req := Request{}
	req.UID = "u"
	got, err := RequestFromContext(NewContextWithRequest(t.Context(), req))
	if err != nil || got.UID != "u" {
		t.Errorf("got %v, %v", got.UID, err)
	}
}

func TestMultiHandlers(t *testing.T) {
	answer := func(r Response) Handler { return HandlerFunc(func(context.Context, Request) Response { return r }) }
	a := Patched("", JSONPatchOp{"add", "/a", 1}).WithWarnings("a")
	b := Patched("", JSONPatchOp{"add", "/b", 1}).WithWarnings("b")
	foreign := Allowed("")
	foreign.PatchType = new(admissionv1.PatchType("Other"))
	tests := map[string]struct {
		handlers []Handler
		allowed  bool
		code     int32
		patches  int
		warnings string
	}{
		"none":              {allowed: true, code: 200},
		"all allow":         {handlers: []Handler{answer(a), answer(b)}, allowed: true, code: 200, patches: 2, warnings: "a b"},
		"one denies":        {handlers: []Handler{answer(a), answer(Denied("no").WithWarnings("no")), answer(b)}, code: 403, warnings: "a no"},
		"one is of another": {handlers: []Handler{answer(a), answer(foreign)}, code: 500},
	}
	for name, test := range tests {
		for _, h := range []Handler{MultiMutatingHandler(test.handlers...), MultiValidatingHandler(test.handlers...)} {
			resp := h.Handle(t.Context(), Request{})
			if resp.Allowed != test.allowed || resp.Result.Code != test.code || len(resp.Patches) != test.patches ||
				strings.Join(resp.Warnings, " ") != test.warnings {
				t.Errorf("%s: got %+v", name, resp)
			}
		}
	}
}

// FuzzReview checks that each request gets a response and, if it has a review that can be decoded,
// one with the review's uid.
func FuzzReview(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[`, `{"request":null}`, reviewOf(``), reviewOf(`,"operation":"CREATE","object":` + widget("a", `"size":1`)),
		reviewOf(`,"operation":"UPDATE","object":{},"oldObject":` + widget("a", `"size":1`)), reviewOf(`,"operation":"DELETE","oldObject":null`),
		reviewOf(`,"operation":"CREATE","object":{"kind":"Widget","apiVersion":"things.example.com/v1alpha1"}`),
		reviewOf(`,"operation":"CREATE","object":"text"`), reviewOf(`,"operation":"CONNECT","options":{"a":1}`),
		reviewOf(`,"operation":"CREATE","object":{"kind":"Widget","apiVersion":"things.example.com/v1","spec":{"parts":[{"x":1},null,{}]}}`),
	} {
		f.Add([]byte(seed))
	}
	hooks := []*Webhook{
		WithDefaulter[*WidgetV1](widgetScheme(), colors{}),
		WithDefaulter[*WidgetV1](widgetScheme(), colors{}, DefaulterRemoveUnknownOrOmitableFields),
		WithValidator[*WidgetV1](widgetScheme(), sizes{}),
	}
	for _, hook := range hooks {
		quiet(hook)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var sent admissionv1.AdmissionReview
		readable := kjson.UnmarshalCaseSensitivePreserveInts(body, &sent) == nil && sent.Request != nil
		for _, hook := range hooks {
			resp := post(t, hook, "application/json; charset=utf-8", bytes.NewReader(body)).Response
			if resp.Result.Code == 500 {
				t.Errorf("%s: %s", body, resp.Result.Message)
			}
			if readable && resp.UID != sent.Request.UID {
				t.Errorf("%s: got the uid %q", body, resp.UID)
			}
		}
	})
}
