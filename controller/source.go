package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/workqueue"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type (
	// A Source is a TypedSource of requests that are keys of objects.
	Source = TypedSource[Request]
	// A SyncingSource is a TypedSyncingSource of requests that are keys of objects.
	SyncingSource = TypedSyncingSource[Request]
	// SourceFunc is a function as a Source. (In controller-runtime: source.Func.)
	SourceFunc = TypedSourceFunc[Request]
	// Informer is a TypedInformer for objects of any kind and requests that are keys of objects.
	Informer = TypedInformer[client.Object, Request]
)

// A TypedSource delivers events to handlers. It belongs to one controller: the sources of this
// package return an error when a second one starts them.
type TypedSource[request comparable] interface {
	// Start starts the delivery, which adds requests to the queue until ctx ends. It does not
	// block.
	Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error
}

// A TypedSyncingSource has initial events that must be handled before the workers start.
type TypedSyncingSource[request comparable] interface {
	TypedSource[request]
	// WaitForSync blocks after Start until handlers have been called for all existing objects, or
	// returns an error when ctx ends.
	WaitForSync(context.Context) error
}

// A stopper is a Source with something to stop. The controller calls Stop after its context has
// ended.
type stopper interface{ Stop() }

// TypedSourceFunc is a function as a TypedSource. (In controller-runtime: source.TypedFunc.)
type TypedSourceFunc[request comparable] func(context.Context, workqueue.TypedRateLimitingInterface[request]) error

// Start implements TypedSource.
func (f TypedSourceFunc[request]) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
	return f(ctx, q)
}

// String implements [fmt.Stringer].
func (f TypedSourceFunc[request]) String() string { return "func source" }

// Kind is the source of the events of the kind of obj, from the informer of a cache. If the server
// does not know the kind yet, it waits for it, up to CacheSyncTimeout of the controller. A handler
// and predicates for one Go type need an obj of that type: otherwise the source does not start.
func Kind[object client.Object](c cache.Cache, obj client.Object, h handler.TypedEventHandler[object, Request], predicates ...predicate.TypedPredicate[object]) SyncingSource {
	return &kind[object, Request]{cache: c, obj: obj, handler: h, predicates: predicates}
}

// TypedKind is Kind for requests of another type.
func TypedKind[object client.Object, request comparable](c cache.Cache, obj object, h handler.TypedEventHandler[object, request], predicates ...predicate.TypedPredicate[object]) TypedSyncingSource[request] {
	return &kind[object, request]{cache: c, obj: obj, handler: h, predicates: predicates}
}

// kindRetry is the time between two attempts to get an informer.
const kindRetry = 10 * time.Second

type kind[object any, request comparable] struct {
	cache      cache.Cache
	obj        client.Object
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]

	started atomic.Bool
	// Set by Start, whose goroutine gets the informer and waits until it has synced.
	cancel       context.CancelFunc
	done         chan struct{} // closed when it has synced or has failed with err
	err          error
	informer     cache.Informer
	registration cache.Registration
}

func (k *kind[object, request]) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
	if k.cache == nil || k.obj == nil {
		return errors.New("kind source: the cache or the object is nil")
	}
	if err := usable(k.handler); err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	if _, ok := k.obj.(object); !ok {
		return fmt.Errorf("%v: the handler takes objects of type %v", k, reflect.TypeFor[object]())
	}
	if k.started.Swap(true) {
		return fmt.Errorf("%v: already started by another controller", k)
	}
	k.done = make(chan struct{})
	ctx, k.cancel = context.WithCancel(ctx)
	go func() {
		defer close(k.done)
		k.err = k.sync(ctx, q)
	}()
	return nil
}

func (k *kind[object, request]) sync(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) (err error) {
	log := LoggerFrom(ctx)
	for k.informer == nil {
		k.informer, err = k.cache.GetInformer(ctx, k.obj)
		if err == nil {
			break
		}
		k.informer = nil
		if ctx.Err() != nil {
			return err
		}
		log.Error(err, "Cannot get an informer from the cache", "source", k.String())
		select {
		case <-time.After(kindRetry):
		case <-ctx.Done():
			return fmt.Errorf("get an informer from the cache: %w", err)
		}
	}
	d := &dispatch[object, request]{ctx: ctx, queue: q, handler: k.handler, predicates: k.predicates}
	k.registration, err = k.informer.AddEventHandler(d, d.options()...)
	if err != nil {
		return fmt.Errorf("add a handler to an informer: %w", err)
	}
	return waitForSync(ctx, k.registration)
}

// waitForSync polls with a growing interval.
func waitForSync(ctx context.Context, r cache.Registration) error {
	for pause := time.Millisecond; !r.HasSynced(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (k *kind[object, request]) WaitForSync(ctx context.Context) error {
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
	}
	k.cancel()
	<-k.done
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	if k.err != nil && !errors.Is(k.err, ctx.Err()) && !errors.Is(k.err, context.Canceled) {
		return fmt.Errorf("timed out waiting for cache to be synced for %v: %w", k, k.err)
	}
	return fmt.Errorf("timed out waiting for cache to be synced for %v", k)
}

// Stop ends the calls of the handler.
func (k *kind[object, request]) Stop() {
	if k.done == nil {
		return
	}
	k.cancel()
	<-k.done
	if k.registration != nil {
		_ = k.informer.RemoveEventHandler(k.registration) // fails only if the informer has ended
	}
}

func (k *kind[object, request]) String() string {
	switch k.obj.(type) {
	case nil:
		return "kind source: unknown type"
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		apiVersion, name := k.obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		return fmt.Sprintf("kind source: %T[%s %s]", k.obj, apiVersion, name)
	}
	return fmt.Sprintf("kind source: %T", k.obj)
}

// TypedInformer is the source of the events of an informer that the caller provides. The controller
// does not wait until it has synced.
type TypedInformer[object any, request comparable] struct {
	Informer   cache.Informer
	Handler    handler.TypedEventHandler[object, request]
	Predicates []predicate.TypedPredicate[object]

	started      atomic.Bool
	registration cache.Registration
}

// Start implements TypedSource.
func (i *TypedInformer[object, request]) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) (err error) {
	if i.Informer == nil {
		return errors.New("informer source: the informer is nil")
	}
	if err := usable(i.Handler); err != nil {
		return fmt.Errorf("informer source: %w", err)
	}
	if i.started.Swap(true) {
		return fmt.Errorf("%v: already started by another controller", i)
	}
	d := &dispatch[object, request]{ctx: ctx, queue: q, handler: i.Handler, predicates: i.Predicates}
	if i.registration, err = i.Informer.AddEventHandler(d, d.options()...); err != nil {
		return fmt.Errorf("informer source: %w", err)
	}
	return nil
}

// Stop ends the calls of the handler.
func (i *TypedInformer[object, request]) Stop() {
	if i.registration != nil {
		_ = i.Informer.RemoveEventHandler(i.registration) // fails only if the informer has ended
	}
}

// String implements [fmt.Stringer].
func (i *TypedInformer[object, request]) String() string { return "informer source" }

// A TypedChannelOption is an option of TypedChannel.
type TypedChannelOption[object any, request comparable] interface {
	applyToChannel(*channel[object, request])
}

// A ChannelOption is an option of Channel, for objects of any kind. WithPredicates is one.
type ChannelOption = TypedChannelOption[client.Object, Request]

// ChannelPredicates drops events that a predicate rejects. (In controller-runtime:
// source.WithPredicates.)
func ChannelPredicates[object any, request comparable](p ...predicate.TypedPredicate[object]) TypedChannelOption[object, request] {
	return channelOption[object, request](func(c *channel[object, request]) { c.predicates = append(c.predicates, p...) })
}

// WithBufferSize sets the number of events that the source takes from the channel before the
// handler has processed them. Default 0: the channel's own buffer is enough, because handlers do
// not block.
func WithBufferSize[object any, request comparable](n int) TypedChannelOption[object, request] {
	return channelOption[object, request](func(c *channel[object, request]) { c.buffer = n })
}

type channelOption[object any, request comparable] func(*channel[object, request])

func (o channelOption[object, request]) applyToChannel(c *channel[object, request]) { o(c) }

// Channel is the source of events that the caller sends, for example from an HTTP handler. It ends
// when the channel is closed.
func Channel[object any](events <-chan handler.TypedGenericEvent[object], h handler.TypedEventHandler[object, Request], opts ...TypedChannelOption[object, Request]) Source {
	return TypedChannel(events, h, opts...)
}

// TypedChannel is Channel for requests of another type.
func TypedChannel[object any, request comparable](events <-chan handler.TypedGenericEvent[object], h handler.TypedEventHandler[object, request], opts ...TypedChannelOption[object, request]) TypedSource[request] {
	c := &channel[object, request]{events: events, handler: h}
	for _, opt := range opts {
		opt.applyToChannel(c)
	}
	return c
}

type channel[object any, request comparable] struct {
	events     <-chan handler.TypedGenericEvent[object]
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]
	buffer     int

	started atomic.Bool
	running sync.WaitGroup
}

func (c *channel[object, request]) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
	if c.events == nil {
		return errors.New("channel source: the channel is nil")
	}
	if err := usable(c.handler); err != nil {
		return fmt.Errorf("channel source: %w", err)
	}
	if c.started.Swap(true) {
		return fmt.Errorf("%v: already started by another controller", c)
	}
	events := c.events
	if c.buffer > 0 {
		buffered := make(chan handler.TypedGenericEvent[object], c.buffer)
		events = buffered
		c.running.Go(func() {
			defer close(buffered)
			receive(ctx, c.events, func(e handler.TypedGenericEvent[object]) {
				select {
				case buffered <- e:
				case <-ctx.Done():
				}
			})
		})
	}
	d := &dispatch[object, request]{ctx: ctx, queue: q, handler: c.handler, predicates: c.predicates}
	c.running.Go(func() { receive(ctx, events, d.generic) })
	return nil
}

// receive calls a function for each event until the channel is closed or ctx ends.
func receive[event any](ctx context.Context, events <-chan event, handle func(event)) {
	for {
		select {
		case e, more := <-events:
			if !more {
				return
			}
			handle(e)
		case <-ctx.Done():
			return
		}
	}
}

// Stop waits for the goroutine, which ends with the context.
func (c *channel[object, request]) Stop() { c.running.Wait() }

func (c *channel[object, request]) String() string { return "channel source" }

// usable returns an error if a handler cannot be used.
func usable(h any) error {
	if h == nil {
		return errors.New("the handler is nil")
	}
	if h, ok := h.(interface{ Err() error }); ok {
		return h.Err()
	}
	return nil
}

// A dispatch calls the handler of a source for the events that pass the predicates.
type dispatch[object any, request comparable] struct {
	ctx        context.Context // of the source: handlers of a cache get no context
	queue      workqueue.TypedRateLimitingInterface[request]
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]
}

// options selects metadata-only events if the handler and the predicates read only metadata, so
// that the cache does not decode objects.
func (d *dispatch[object, request]) options() []cache.HandlerOption {
	if _, ok := any((*metav1.PartialObjectMetadata)(nil)).(object); !ok || !metadataOnly(d.handler) {
		return nil
	}
	for _, p := range d.predicates {
		if !metadataOnly(p) {
			return nil
		}
	}
	return []cache.HandlerOption{cache.MetadataOnly()}
}

func metadataOnly(of any) bool {
	m, ok := of.(interface{ MetadataOnly() bool })
	return ok && m.MetadataOnly()
}

// typed converts an object of the cache to the type that the handler takes. A mismatch is a bug of
// the program.
func (d *dispatch[object, request]) typed(obj client.Object) (object, bool) {
	o, ok := any(obj).(object)
	if !ok {
		LoggerFrom(d.ctx).Error(nil, "An informer has objects of another type than its handler: the event is ignored",
			"type", fmt.Sprintf("%T", obj), "handler", fmt.Sprintf("%T", d.handler))
	}
	return o, ok
}

func (d *dispatch[object, request]) OnAdd(obj client.Object, isInInitialList bool) {
	o, ok := d.typed(obj)
	if !ok {
		return
	}
	e := handler.TypedCreateEvent[object]{Object: o, IsInInitialList: isInInitialList}
	for _, p := range d.predicates {
		if !p.Create(e) {
			return
		}
	}
	ctx, q, end := d.begin("Create", obj)
	defer end()
	d.handler.Create(ctx, e, handler.QueueForCreate(q, e))
}

func (d *dispatch[object, request]) OnUpdate(old, obj client.Object) {
	before, ok := d.typed(old)
	after, okToo := d.typed(obj)
	if !ok || !okToo {
		return
	}
	e := handler.TypedUpdateEvent[object]{ObjectOld: before, ObjectNew: after}
	for _, p := range d.predicates {
		if !p.Update(e) {
			return
		}
	}
	ctx, q, end := d.begin("Update", obj)
	defer end()
	d.handler.Update(ctx, e, handler.QueueForUpdate(q, e))
}

func (d *dispatch[object, request]) OnDelete(obj client.Object, unknown bool) {
	o, ok := d.typed(obj)
	if !ok {
		return
	}
	e := handler.TypedDeleteEvent[object]{Object: o, DeleteStateUnknown: unknown}
	for _, p := range d.predicates {
		if !p.Delete(e) {
			return
		}
	}
	ctx, q, end := d.begin("Delete", obj)
	defer end()
	d.handler.Delete(ctx, e, q)
}

func (d *dispatch[object, request]) generic(e handler.TypedGenericEvent[object]) {
	for _, p := range d.predicates {
		if !p.Generic(e) {
			return
		}
	}
	ctx, q, end := d.begin("Generic", e.Object)
	defer end()
	d.handler.Generic(ctx, e, q)
}

// begin returns the context and the queue for an event, and a function to call after it.
func (d *dispatch[object, request]) begin(what string, obj any) (context.Context, workqueue.TypedRateLimitingInterface[request], func()) {
	if q, ok := d.queue.(*tracedQueue[request]); ok && obj != nil {
		ctx, queue, span := q.tracer.event(d.ctx, q.TypedRateLimitingInterface, what, obj)
		return ctx, queue, func() { span.End() }
	}
	return d.ctx, d.queue, func() {}
}
