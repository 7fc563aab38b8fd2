package controller

import (
	"context"
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/workqueue"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope.
const tracerName = "github.com/kapok-dev/kapok/controller"

// maxCauses is the number of events that a reconcile is linked to: the first ones.
const maxCauses = 8

// A tracer creates a span for each event that adds requests, and one for each reconcile, with links
// to the events that caused it. Requests that Reconcile sends with its context are children of its
// span: see manager.Options.TracerProvider. A nil tracer does nothing.
type tracer[request comparable] struct {
	trace.Tracer
	controller string

	mu     sync.Mutex
	causes map[request][]trace.Link
}

func newTracer[request comparable](p trace.TracerProvider, controller string) *tracer[request] {
	if p == nil {
		return nil
	}
	return &tracer[request]{Tracer: p.Tracer(tracerName), controller: controller, causes: map[request][]trace.Link{}}
}

// event starts the span of an event, and returns a queue that records it as the cause of added
// requests. obj may be another type than client.Object.
func (t *tracer[request]) event(ctx context.Context, q workqueue.TypedRateLimitingInterface[request], what string, obj any) (context.Context, workqueue.TypedRateLimitingInterface[request], trace.Span) {
	attributes := []attribute.KeyValue{attribute.String("controller", t.controller)}
	if obj, ok := obj.(client.Object); ok {
		attributes = append(attributes, attribute.String("k8s.namespace.name", obj.GetNamespace()), attribute.String("k8s.object.name", obj.GetName()),
			attribute.String("k8s.object.uid", string(obj.GetUID())), attribute.String("k8s.object.resource_version", obj.GetResourceVersion()))
	}
	ctx, span := t.Start(ctx, what, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
	caused := causing[request]{q, t, trace.Link{SpanContext: span.SpanContext()}}
	return ctx, handler.WithPriority(caused, 0), span
}

// reconcile starts the span of a reconcile, and returns a function that ends it.
func (t *tracer[request]) reconcile(ctx context.Context, r request) (context.Context, func(result string, err error)) {
	if t == nil {
		return ctx, func(string, error) {}
	}
	t.mu.Lock()
	links := t.causes[r]
	delete(t.causes, r)
	t.mu.Unlock()
	attributes := []attribute.KeyValue{attribute.String("controller", t.controller)}
	if of, ok := any(r).(Request); ok {
		attributes = append(attributes, attribute.String("k8s.namespace.name", of.Namespace), attribute.String("k8s.object.name", of.Name))
	} else {
		attributes = append(attributes, attribute.String("request", fmt.Sprint(r)))
	}
	ctx, span := t.Start(ctx, "Reconcile "+t.controller, trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	return ctx, func(result string, err error) {
		span.SetAttributes(attribute.String("result", result))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// A tracedQueue is the queue of a controller that traces events.
type tracedQueue[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	tracer *tracer[request]
}

// A causing queue records the cause of added requests.
type causing[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	tracer *tracer[request]
	link   trace.Link
}

// AddWithOpts is called by the other methods through handler.WithPriority.
func (q causing[request]) AddWithOpts(opts workqueue.AddOpts, requests ...request) {
	q.tracer.mu.Lock()
	for _, r := range requests {
		if links := q.tracer.causes[r]; len(links) < maxCauses {
			q.tracer.causes[r] = append(links, q.link)
		}
	}
	q.tracer.mu.Unlock()
	q.TypedRateLimitingInterface.AddWithOpts(opts, requests...)
}
