package controller

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/workqueue"
)

// tracerName is the instrumentation scope.
const tracerName = "github.com/kapok-dev/kapok/controller"

// maxCauses is how many events a reconcile is linked to, the first of them.
const maxCauses = 8

// A tracer makes a span of each event that adds requests, and one of each reconcile, with links to the events that it is for. What
// Reconcile sends with its context are children of its span: see manager.Options.TracerProvider. A nil tracer does nothing.
type tracer struct {
	trace.Tracer
	controller string

	mu     sync.Mutex
	causes map[Request][]trace.Link
}

func newTracer(p trace.TracerProvider, controller string) *tracer {
	if p == nil {
		return nil
	}
	return &tracer{Tracer: p.Tracer(tracerName), controller: controller, causes: map[Request][]trace.Link{}}
}

// event begins the span of an event, and returns a queue that remembers it as the cause of what is added.
func (t *tracer) event(ctx context.Context, q handler.Queue, what string, obj client.Object) (context.Context, handler.Queue, trace.Span) {
	ctx, span := t.Start(ctx, what, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("controller", t.controller), attribute.String("k8s.namespace.name", obj.GetNamespace()), attribute.String("k8s.object.name", obj.GetName()),
		attribute.String("k8s.object.uid", string(obj.GetUID())), attribute.String("k8s.object.resource_version", obj.GetResourceVersion())))
	return ctx, handler.WithPriority(causing{q, t, trace.Link{SpanContext: span.SpanContext()}}, 0), span
}

// reconcile begins the span of a reconcile, and returns what ends it.
func (t *tracer) reconcile(ctx context.Context, r Request) (context.Context, func(result string, err error)) {
	if t == nil {
		return ctx, func(string, error) {}
	}
	t.mu.Lock()
	links := t.causes[r]
	delete(t.causes, r)
	t.mu.Unlock()
	ctx, span := t.Start(ctx, "Reconcile "+t.controller, trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(
		attribute.String("controller", t.controller), attribute.String("k8s.namespace.name", r.Namespace), attribute.String("k8s.object.name", r.Name)))
	return ctx, func(result string, err error) {
		span.SetAttributes(attribute.String("result", result))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// A tracedQueue is the queue of a controller whose sources are to make spans of events.
type tracedQueue struct {
	handler.Queue
	tracer *tracer
}

// A causing queue notes why requests are added.
type causing struct {
	handler.Queue
	tracer *tracer
	link   trace.Link
}

// AddWithOpts is what the other methods come to, by handler.WithPriority.
func (q causing) AddWithOpts(opts workqueue.AddOpts, requests ...Request) {
	q.tracer.mu.Lock()
	for _, r := range requests {
		if links := q.tracer.causes[r]; len(links) < maxCauses {
			q.tracer.causes[r] = append(links, q.link)
		}
	}
	q.tracer.mu.Unlock()
	q.Queue.AddWithOpts(opts, requests...)
}
