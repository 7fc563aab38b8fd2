package server_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/kapok-dev/kapok"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
)

// The span that clients of the tests send.
const (
	remoteTrace = "0af7651916cd43dd8448eb211c80319c"
	remoteSpan  = "b7ad6b7169203331"
	traceParent = "00-" + remoteTrace + "-" + remoteSpan + "-01"
)

// spans are those that have ended, by their names.
func spans(recorder *tracetest.SpanRecorder) map[string]sdktrace.ReadOnlySpan {
	all := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		all[s.Name()] = s
	}
	return all
}

// TestTraces follows a write through a webhook to the journal.
func TestTraces(t *testing.T) {
	var received atomic.Value // the header that the webhook gets
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received.Store(r.Header.Get("traceparent"))
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	ca, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}

	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	r := startRaw(t, kapok.Options{KeepGarbage: true, TracerProvider: provider})
	r.must(201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{"metadata":{"name":"traced"},"webhooks":[{
		"name":"traced.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%s},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}`, hook.URL, ca))
	if n := len(recorder.Ended()); n != 0 {
		t.Fatalf("%d spans of requests that nobody wants to record", n)
	}

	const path = "/api/v1/namespaces/default/configmaps"
	r.must(201, "POST", path, `{"metadata":{"name":"a"}}`, "traceparent", traceParent, "Audit-ID", "the-id")
	all := spans(recorder)
	request, call, commit := all["POST /api/v1/namespaces/{:namespace}/configmaps"], all["Call validating webhook"], all["Commit"]
	if request == nil || call == nil || commit == nil || len(recorder.Ended()) != 3 {
		t.Fatalf("the spans are %v", all)
	}
	if s := request.SpanContext(); s.TraceID().String() != remoteTrace || request.Parent().SpanID().String() != remoteSpan || request.SpanKind() != trace.SpanKindServer {
		t.Errorf("the span of the request is %v below %v", s, request.Parent())
	}
	for _, s := range []sdktrace.ReadOnlySpan{call, commit} {
		if s.Parent().SpanID() != request.SpanContext().SpanID() || s.StartTime().Before(request.StartTime()) || s.EndTime().After(request.EndTime()) {
			t.Errorf("span %s is not within that of the request", s.Name())
		}
	}
	if want := "00-" + remoteTrace + "-" + call.SpanContext().SpanID().String() + "-01"; received.Load() != want {
		t.Errorf("the webhook gets %v, want %s", received.Load(), want)
	}
	for s, want := range map[sdktrace.ReadOnlySpan]attribute.KeyValue{
		request: attribute.Int("http.response.status_code", 201),
		call:    attribute.String("webhook", "traced.example.com"),
	} {
		if !contains(s, want) {
			t.Errorf("span %s lacks %v: %v", s.Name(), want, s.Attributes())
		}
	}
	if want := attribute.String("audit-id", "the-id"); !contains(request, want) {
		t.Errorf("the span of the request lacks %v", want)
	}
}

func contains(s sdktrace.ReadOnlySpan, want attribute.KeyValue) bool {
	for _, a := range s.Attributes() {
		if a == want {
			return true
		}
	}
	return false
}

// TestTracesOfStrangers checks that the span of a client without privileges does not decide what is
// recorded, and that its trace is not continued.
func TestTracesOfStrangers(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		recorder := tracetest.NewSpanRecorder()
		sampler := sdktrace.NeverSample()
		if sampled {
			sampler = sdktrace.AlwaysSample()
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sampler)))
		r := startRaw(t, kapok.Options{KeepGarbage: true, TracerProvider: provider})
		r.must(200, "GET", "/version", "", "traceparent", traceParent, "Impersonate-User", "eve", "Impersonate-Group", "system:authenticated")
		r.must(401, "GET", "/version", "", "traceparent", traceParent, "Authorization", "Bearer invalid")
		r.must(403, "GET", "/api/v1/nodes/x", "", "traceparent", "00-bad", "Impersonate-User", "eve")
		switch ended := requestsOf(recorder); {
		case !sampled && len(ended) != 0:
			t.Errorf("a stranger has had %d spans recorded", len(ended))
		case sampled && len(ended) != 2:
			t.Errorf("%d spans, want one for each request of a user", len(ended))
		case sampled:
			if first := ended[0]; first.Parent().IsValid() || len(first.Links()) != 1 || first.Links()[0].SpanContext.TraceID().String() != remoteTrace || first.Name() != "GET" {
				t.Errorf("the span %s has parent %v and links %v", first.Name(), first.Parent(), first.Links())
			}
			if second := ended[1]; second.Name() != "GET /api/v1/nodes/{:name}" || len(second.Links()) != 0 || !contains(second, attribute.Int("http.response.status_code", 403)) {
				t.Errorf("the span %s has links %v and attributes %v", second.Name(), second.Links(), second.Attributes())
			}
		}
	}
}

// requestsOf returns the spans of requests that have ended, without those of their parts: a request
// that has to wait for a seat has one.
func requestsOf(recorder *tracetest.SpanRecorder) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(recorder.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.SpanKind() != trace.SpanKindServer })
}

// TestTracesOfGarbage checks what clients can put into spans: text that a collector accepts, of a
// bounded length, and no names of their own.
func TestTracesOfGarbage(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	r := startRaw(t, kapok.Options{KeepGarbage: true, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	long := strings.Repeat("x", 100_000)
	r.must(404, "GET", "/api/v1/namespaces/default/%ff%fe", "", "User-Agent", "x\xff"+long, "Audit-ID", "a\xffb")
	r.must(404, "GET", "/apis/rnd1.example.com/v1/things/a", "")
	r.must(404, "GET", "/api/v1/namespaces/default/pods/a/made-up", "")
	r.do("MADE-UP", "/api/v1/namespaces/default/pods", "")
	want := []string{"GET", "GET", "GET", "_OTHER /api/v1/namespaces/{:namespace}/pods"}
	ended := requestsOf(recorder)
	if len(ended) != len(want) {
		t.Fatalf("%d spans, want %d", len(ended), len(want))
	}
	for i, s := range ended {
		if s.Name() != want[i] {
			t.Errorf("the name of span %d is %q, want %q", i, s.Name(), want[i])
		}
		for _, a := range s.Attributes() {
			if text := a.Value.AsString(); !utf8.ValidString(text) || len(text) > 2000 {
				t.Errorf("attribute %s has %d bytes: %.50q", a.Key, len(text), text)
			}
		}
	}
}

// TestTraceOfConversion checks the span of a conversion webhook.
func TestTraceOfConversion(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	r := startRaw(t, kapok.Options{KeepGarbage: true, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	convertOn(r).must(201, "POST", foos, foo("a", `,"spec":{"hostPort":"localhost:80"}`))
	call := spans(recorder)["Call conversion webhook"]
	if call == nil || !call.Parent().IsValid() || !contains(call, attribute.String("custom_resource_definition", "foos.example.com")) || !contains(call, attribute.Int("objects", 1)) {
		t.Errorf("the span of the conversion is %v among %v", call, spans(recorder))
	}
}
