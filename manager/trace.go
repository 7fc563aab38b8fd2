package manager

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope.
const tracerName = "github.com/kapok-dev/kapok/manager"

// traced returns a RoundTripper that creates a span for each request whose context has a span, and
// propagates it to the server. Other requests, such as those of a cache, get none.
func traced(p trace.TracerProvider, next http.RoundTripper) http.RoundTripper {
	return tracedRequests{next, p.Tracer(tracerName)}
}

type tracedRequests struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

func (t tracedRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.next.RoundTrip(r)
	}
	ctx, span := t.tracer.Start(r.Context(), r.Method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path), attribute.String("server.address", r.URL.Host)))
	defer span.End()
	r = r.Clone(ctx) // as a RoundTripper must not change a request
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	response, err := t.next.RoundTrip(r)
	switch {
	case err != nil:
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	case response.StatusCode >= 400:
		span.SetStatus(codes.Error, response.Status)
		fallthrough
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	}
	return response, err
}

// WrappedRoundTripper returns the wrapped RoundTripper. client-go uses it to close idle
// connections.
func (t tracedRequests) WrappedRoundTripper() http.RoundTripper { return t.next }
