package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
)

// A Source has handlers hear of what happens. It is of one controller: those of this package refuse to start for a second one.
type Source interface {
	// Start has events come to the queue until the context ends. It does not block.
	Start(context.Context, handler.Queue) error
}

// A SyncingSource has something to say before the controller begins to work.
type SyncingSource interface {
	Source
	// WaitForSync waits, after Start, until handlers have heard of everything there was, or the context ends.
	WaitForSync(context.Context) error
}

// A stopper is a Source that has something to end. The controller calls Stop when it has ended itself.
type stopper interface{ Stop() }

// SourceFunc is a Source of a function. (In controller-runtime it is source.Func.)
type SourceFunc func(context.Context, handler.Queue) error

// Start implements Source.
func (f SourceFunc) Start(ctx context.Context, q handler.Queue) error { return f(ctx, q) }

func (f SourceFunc) String() string { return "func source" }

// Kind is the source of what happens to the objects of a kind, by the informer of a cache. It waits for a kind that the server does
// not know yet, until the CacheSyncTimeout of the controller.
func Kind(c cache.Cache, obj client.Object, h handler.EventHandler, predicates ...predicate.Predicate) SyncingSource {
	return &kind{cache: c, obj: obj, handler: h, predicates: predicates}
}

// kindRetry is the time after which an informer that cannot be had is asked for again.
const kindRetry = 10 * time.Second

type kind struct {
	cache      cache.Cache
	obj        client.Object
	handler    handler.EventHandler
	predicates []predicate.Predicate

	started atomic.Bool
	// Of Start. A goroutine gets the informer, and waits until it has synced.
	cancel       context.CancelFunc
	done         chan struct{} // closed when that is so, or err says why not
	err          error
	informer     cache.Informer
	registration cache.Registration
}

func (k *kind) Start(ctx context.Context, q handler.Queue) error {
	if k.cache == nil || k.obj == nil {
		return errors.New("kind source: needs a cache and an object")
	}
	if err := usable(k.handler); err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	if k.started.Swap(true) {
		return fmt.Errorf("%v: is of another controller", k)
	}
	k.done = make(chan struct{})
	ctx, k.cancel = context.WithCancel(ctx)
	go func() {
		defer close(k.done)
		k.err = k.sync(ctx, q)
	}()
	return nil
}

func (k *kind) sync(ctx context.Context, q handler.Queue) (err error) {
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
	d := &dispatch{ctx: ctx, queue: q, handler: k.handler, predicates: k.predicates}
	k.registration, err = k.informer.AddEventHandler(d, d.options()...)
	if err != nil {
		return fmt.Errorf("add a handler to an informer: %w", err)
	}
	return waitForSync(ctx, k.registration)
}

// waitForSync looks again and again, less and less often.
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

func (k *kind) WaitForSync(ctx context.Context) error {
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

// Stop has the handler called no more.
func (k *kind) Stop() {
	if k.done == nil {
		return
	}
	k.cancel()
	<-k.done
	if k.registration != nil {
		_ = k.informer.RemoveEventHandler(k.registration) // of an informer that may have ended itself
	}
}

func (k *kind) String() string {
	switch k.obj.(type) {
	case nil:
		return "kind source: unknown type"
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		apiVersion, name := k.obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		return fmt.Sprintf("kind source: %T[%s %s]", k.obj, apiVersion, name)
	}
	return fmt.Sprintf("kind source: %T", k.obj)
}

// Informer is the source of what an informer hears, which the caller has got himself. The controller does not wait until it has synced.
type Informer struct {
	Informer   cache.Informer
	Handler    handler.EventHandler
	Predicates []predicate.Predicate

	started      atomic.Bool
	registration cache.Registration
}

// Start implements Source.
func (i *Informer) Start(ctx context.Context, q handler.Queue) (err error) {
	if i.Informer == nil {
		return errors.New("informer source: needs an informer")
	}
	if err := usable(i.Handler); err != nil {
		return fmt.Errorf("informer source: %w", err)
	}
	if i.started.Swap(true) {
		return fmt.Errorf("%v: is of another controller", i)
	}
	d := &dispatch{ctx: ctx, queue: q, handler: i.Handler, predicates: i.Predicates}
	if i.registration, err = i.Informer.AddEventHandler(d, d.options()...); err != nil {
		return fmt.Errorf("informer source: %w", err)
	}
	return nil
}

// Stop has the handler called no more.
func (i *Informer) Stop() {
	if i.registration != nil {
		_ = i.Informer.RemoveEventHandler(i.registration) // of an informer that may have ended itself
	}
}

func (i *Informer) String() string { return "informer source" }

// A ChannelOption is an option of Channel.
type ChannelOption interface{ applyToChannel(*channel) }

// Channel is the source of events from outside of the API, which the caller sends: for instance by an HTTP handler. It ends when
// the channel is closed.
func Channel(events <-chan handler.GenericEvent, h handler.EventHandler, opts ...ChannelOption) Source {
	c := &channel{events: events, handler: h}
	for _, opt := range opts {
		opt.applyToChannel(c)
	}
	return c
}

type channel struct {
	events     <-chan handler.GenericEvent
	handler    handler.EventHandler
	predicates []predicate.Predicate

	started atomic.Bool
	running sync.WaitGroup
}

func (c *channel) Start(ctx context.Context, q handler.Queue) error {
	if c.events == nil {
		return errors.New("channel source: needs a channel")
	}
	if err := usable(c.handler); err != nil {
		return fmt.Errorf("channel source: %w", err)
	}
	if c.started.Swap(true) {
		return fmt.Errorf("%v: is of another controller", c)
	}
	d := &dispatch{ctx: ctx, queue: q, handler: c.handler, predicates: c.predicates}
	c.running.Go(func() {
		for {
			select {
			case e, more := <-c.events:
				if !more {
					return
				}
				d.generic(e)
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// Stop waits, as the context has ended.
func (c *channel) Stop() { c.running.Wait() }

func (c *channel) String() string { return "channel source" }

// usable says what is wrong with a handler.
func usable(h handler.EventHandler) error {
	if h == nil {
		return errors.New("needs a handler")
	}
	if h, ok := h.(interface{ Err() error }); ok {
		return h.Err()
	}
	return nil
}

// dispatch takes the events of a source to its handler, if the predicates let them pass.
type dispatch struct {
	ctx        context.Context // of the source: handlers of a cache have none
	queue      handler.Queue
	handler    handler.EventHandler
	predicates []predicate.Predicate
}

// options has objects not decoded if nobody looks at more than their metadata.
func (d *dispatch) options() []cache.HandlerOption {
	if !metadataOnly(d.handler) {
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

func (d *dispatch) OnAdd(obj client.Object, isInInitialList bool) {
	e := handler.CreateEvent{Object: obj, IsInInitialList: isInInitialList}
	for _, p := range d.predicates {
		if !p.Create(e) {
			return
		}
	}
	ctx, q, end := d.begin("Create", obj)
	defer end()
	d.handler.Create(ctx, e, handler.QueueForCreate(q, e))
}

func (d *dispatch) OnUpdate(old, obj client.Object) {
	e := handler.UpdateEvent{ObjectOld: old, ObjectNew: obj}
	for _, p := range d.predicates {
		if !p.Update(e) {
			return
		}
	}
	ctx, q, end := d.begin("Update", obj)
	defer end()
	d.handler.Update(ctx, e, handler.QueueForUpdate(q, e))
}

func (d *dispatch) OnDelete(obj client.Object, unknown bool) {
	e := handler.DeleteEvent{Object: obj, DeleteStateUnknown: unknown}
	for _, p := range d.predicates {
		if !p.Delete(e) {
			return
		}
	}
	ctx, q, end := d.begin("Delete", obj)
	defer end()
	d.handler.Delete(ctx, e, q)
}

func (d *dispatch) generic(e handler.GenericEvent) {
	for _, p := range d.predicates {
		if !p.Generic(e) {
			return
		}
	}
	ctx, q, end := d.begin("Generic", e.Object)
	defer end()
	d.handler.Generic(ctx, e, q)
}

// begin returns the context and the queue of an event, and what is to be called after it.
func (d *dispatch) begin(what string, obj client.Object) (context.Context, handler.Queue, func()) {
	if q, ok := d.queue.(*tracedQueue); ok && obj != nil {
		ctx, queue, span := q.tracer.event(d.ctx, q.Queue, what, obj)
		return ctx, queue, func() { span.End() }
	}
	return d.ctx, d.queue, func() {}
}
