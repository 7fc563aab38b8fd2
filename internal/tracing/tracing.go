// Package tracing makes the spans of requests: the parts of the work for a request that may take
// long because of something else, such as a webhook or the disk.
//
//	ctx, span := tracing.Start(ctx, "Commit")
//	err := commit(ctx)
//	tracing.End(span, err)
//
// The span of a request, and with it the provider, is in the context of the request. A request that
// is not recorded has spans that do nothing: they cost a lookup in the context. The package has no
// state, starts no goroutine and has no locks; all functions are safe for concurrent use.
package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Scope is the name of the instrumentation scope of all spans of the server.
const Scope = "github.com/kapok-dev/kapok"

// Start starts a span below that of the context. The caller must call End. Attributes that cost
// something are for a span whose IsRecording is true.
func Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{} // not the parent, which the caller would end
	}
	return parent.TracerProvider().Tracer(Scope).Start(ctx, name, opts...)
}

// End ends a span, with the error of its work or nil.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Extract returns a context with the remote span that the headers of a request name (W3C Trace
// Context). Headers that are absent or malformed name none.
func Extract(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}

// Inject sets the headers of an outgoing request that name the span of the context. Without one, it
// changes nothing.
func Inject(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}
