package endpoint

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/tracing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(c.begun)}
	switch remote := tracing.Extract(ctx, c.r.Header); {
	case slices.Contains(c.user.Groups, user.SystemPrivilegedGroup), slices.Contains(c.user.Groups, user.MonitoringGroup):
		ctx = remote
	default:
		options = append(options, trace.WithNewRoot())
		if s := trace.SpanContextFromContext(remote); s.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: s}))
		}
	}
	ctx, c.span = c.h.opts.TracerProvider.Tracer(tracing.Scope).Start(ctx, c.route(), options...)
	c.r = c.r.WithContext(ctx)
	if c.span.IsRecording() {
		c.span.SetAttributes(
			attributeText("http.request.method", c.r.Method),
			attributeText("http.target", c.r.URL.RequestURI()),
			attributeText("user_agent.original", c.r.UserAgent()),
			attributeText("audit-id", c.w.Header().Get("Audit-Id")),
		)
	}
}

// route returns the method and the path with placeholders for names, as Kubernetes names its spans;
// for paths that are no known resource, the method alone. Clients cannot make any number of names.
func (c *call) route() string {
	method := c.r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "_OTHER" // as OpenTelemetry's conventions call it
	}
	if i := &c.info; i.IsResource && c.isKnown() {
		prefix := "/apis/" + i.Group
		if i.Group == "" {
			prefix = "/api"
		}
		path := prefix + "/" + i.Version
		if i.Namespace != "" {
			path += "/namespaces/{:namespace}"
		}
		path += "/" + i.Resource
		if i.NameInPath {
			path += "/{:name}"
		}
		if i.Subresource != "" {
			path += "/" + i.Subresource
		}
		return method + " " + path
	}
	return method
}

// isKnown reports whether the server has the resource of the path, and the subresource if there is
// one.
func (c *call) isKnown() bool {
	i := &c.info
	d := c.h.store.Registry().Load().Resource(schema.GroupResource{Group: i.Group, Resource: i.Resource})
	if d == nil {
		return false
	}
	v := d.Version(schema.GroupVersion{Group: i.Group, Version: i.Version})
	return v != nil && (i.Subresource == "" || i.Subresource == "scale" || v.Subresource(i.Subresource) != nil || v.Connection(i.Subresource) != nil)
}

// maxAttribute is the length of attributes that clients choose, in bytes: 512 spans wait for a slow
// collector, in kilobytes each instead of megabytes.
const maxAttribute = 1 << 10

// attributeText returns an attribute whose value a client has chosen. A value that is no UTF-8
// would make the exporter drop the spans of all clients.
func attributeText(key, value string) attribute.KeyValue {
	if len(value) > maxAttribute {
		value = value[:maxAttribute]
	}
	return attribute.String(key, strings.ToValidUTF8(value, "\uFFFD"))
}

// spanWait adds a span for the time that the request has waited for a seat, which is over.
func (c *call) spanWait() {
	if c.span == nil || c.queued < time.Millisecond {
		return
	}
	_, span := tracing.Start(c.r.Context(), "Wait for a seat", trace.WithTimestamp(time.Now().Add(-c.queued)))
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
