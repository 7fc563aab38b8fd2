package endpoint

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/telemetry"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/authentication/user"
)

// startSpan starts the span of the request, whose user is known. As in Kubernetes, only members of
// system:masters and system:monitoring decide with the span that they send whether the request is
// recorded; the spans of others become links.
func (c *call) startSpan() {
	if c.h.opts.TracerProvider == nil {
		return
	}
	ctx := c.r.Context()
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(c.begun), trace.WithAttributes(
		attribute.String("http.request.method", c.r.Method),
		attribute.String("http.target", c.r.URL.RequestURI()),
		attribute.String("user_agent.original", c.r.UserAgent()),
		attribute.String("audit-id", c.w.Header().Get("Audit-Id")),
	)}
	switch remote := telemetry.Extract(ctx, c.r.Header); {
	case slices.Contains(c.user.Groups, user.SystemPrivilegedGroup), slices.Contains(c.user.Groups, user.MonitoringGroup):
		ctx = remote
	default:
		options = append(options, trace.WithNewRoot())
		if s := trace.SpanContextFromContext(remote); s.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: s}))
		}
	}
	ctx, c.span = c.h.opts.TracerProvider.Tracer(telemetry.Scope).Start(ctx, c.route(), options...)
	c.r = c.r.WithContext(ctx)
}

// route returns the method and the path with placeholders for names, as Kubernetes names its spans;
// for paths that are no resource, the method alone.
func (c *call) route() string {
	i := &c.info
	if !i.IsResource {
		return c.r.Method
	}
	var path strings.Builder
	path.WriteString(c.r.Method)
	if i.Group == "" {
		path.WriteString(" /api/")
	} else {
		path.WriteString(" /apis/" + i.Group + "/")
	}
	path.WriteString(i.Version)
	if i.Namespace != "" {
		path.WriteString("/namespaces/{:namespace}")
	}
	path.WriteString("/" + i.Resource)
	if i.NameInPath {
		path.WriteString("/{:name}")
	}
	if i.Subresource != "" {
		path.WriteString("/" + i.Subresource)
	}
	return path.String()
}

// spanWait adds a span for the time that the request has waited for a seat, which is over.
func (c *call) spanWait() {
	if c.span == nil || c.queued < time.Millisecond {
		return
	}
	_, span := telemetry.Start(c.r.Context(), "Wait for a seat", trace.WithTimestamp(time.Now().Add(-c.queued)))
	span.End()
}

// endSpan ends the span of the request.
func (c *call) endSpan(code int) {
	if c.span == nil {
		return
	}
	c.span.SetAttributes(attribute.Int("http.response.status_code", code), attribute.Int64("http.response.body.size", c.w.sent))
	if code >= http.StatusInternalServerError {
		c.span.SetStatus(codes.Error, http.StatusText(code))
	}
	c.span.End()
	c.span = nil
}
