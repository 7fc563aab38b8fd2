package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// A Controller is a TypedController whose requests are keys of objects.
type Controller = TypedController[Request]

// A TypedController calls its Reconciler for the requests that its sources add to its queue.
type TypedController[request comparable] interface {
	// Reconcile calls the Reconciler as the controller does: a panic becomes an error, and the
	// context ends after ReconciliationTimeout.
	TypedReconciler[request]
	// Watch adds a source, and starts it if the controller is running. It returns an error if the
	// controller has been stopped.
	Watch(TypedSource[request]) error
	// Start runs the controller until ctx ends, and returns after its workers have ended. It
	// returns an error if a source fails to start or to sync. It can be called once, usually by a
	// manager.
	Start(context.Context) error
	// GetLogger returns the logger of the controller.
	GetLogger() logr.Logger
}

var (
	errTimeout = errors.New("reconciliation timeout") // the cause of a canceled context
	errEnded   = errors.New("the controller has ended")
)

type controller[request comparable] struct {
	name    string
	opts    TypedOptions[request]
	metrics *metrics
	tracer  *tracer[request]
	queue   *workqueue.Queue[request]

	mu       sync.Mutex
	sources  []TypedSource[request] // to be started
	running  []TypedSource[request] // to be stopped
	starting sync.WaitGroup         // counts starting sources; not increased after ctx has ended
	ctx      context.Context        // of the sources; nil before they start
	cancel   context.CancelFunc
	begun    chan struct{} // closed when the sources have started and synced, or have failed with err
	err      error
	started  bool
	ending   bool
	ended    chan struct{} // closed when the sources have been stopped
}

// New returns a controller and adds it to a manager. name must be unique in the manager.
func New(name string, m manager.Manager, opts Options) (Controller, error) {
	return NewTyped(name, m, opts)
}

// NewTyped is New for requests of another type.
func NewTyped[request comparable](name string, m manager.Manager, opts TypedOptions[request]) (TypedController[request], error) {
	if m == nil {
		return nil, errors.New("controller: the manager is nil")
	}
	opts.inherit(name, m)
	c, err := newController(name, opts)
	if err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

// NewUnmanaged returns a controller that the caller starts.
func NewUnmanaged(name string, opts Options) (Controller, error) {
	return NewTypedUnmanaged(name, opts)
}

// NewTypedUnmanaged is NewUnmanaged for requests of another type.
func NewTypedUnmanaged[request comparable](name string, opts TypedOptions[request]) (TypedController[request], error) {
	return newController(name, opts)
}

func newController[request comparable](name string, opts TypedOptions[request]) (*controller[request], error) {
	if name == "" {
		return nil, errors.New("controller: the name is empty")
	}
	if opts.Reconciler == nil {
		return nil, fmt.Errorf("controller %s: the Reconciler is nil", name)
	}
	opts.complete(name)
	m, err := newMetrics(opts.Registerer, name)
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", name, err)
	}
	return &controller[request]{name: name, opts: opts, metrics: m, tracer: newTracer[request](opts.TracerProvider, name),
		begun: make(chan struct{}), ended: make(chan struct{})}, nil
}

// ControllerName returns the name, which a manager keeps unique, or "" if SkipNameValidation is
// set.
func (c *controller[request]) ControllerName() string {
	if isTrue(c.opts.SkipNameValidation, false) {
		return ""
	}
	return c.name
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *controller[request]) NeedLeaderElection() bool {
	return isTrue(c.opts.NeedLeaderElection, true)
}

func (c *controller[request]) GetLogger() logr.Logger { return c.opts.LogConstructor(nil) }

func (c *controller[request]) Watch(s TypedSource[request]) error {
	if s == nil {
		return fmt.Errorf("controller %s: the source is nil", c.name)
	}
	c.mu.Lock()
	running := c.ctx != nil
	if !running {
		c.sources = append(c.sources, s)
	}
	c.mu.Unlock()
	if !running {
		return nil
	}
	c.GetLogger().Info("Starting EventSource", "source", describe(s))
	return c.start(s)
}

// start starts a source, unless the controller has been stopped. No lock is held during the call:
// the source and its handler may call Watch.
func (c *controller[request]) start(s TypedSource[request]) error {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return fmt.Errorf("controller %s: start source: %w", c.name, errEnded)
	}
	c.starting.Add(1)
	c.mu.Unlock()
	defer c.starting.Done()

	if err := s.Start(c.ctx, c.sink()); err != nil {
		return fmt.Errorf("controller %s: start source: %w", c.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, s)
	return nil
}

// Warmup implements manager.WarmupRunnable. It ends with its context, because Start may never be
// called.
func (c *controller[request]) Warmup(ctx context.Context) error {
	if !isTrue(c.opts.EnableWarmup, false) {
		return nil
	}
	defer c.end()
	if err := c.begin(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (c *controller[request]) Start(ctx context.Context) error {
	c.mu.Lock()
	started := c.started
	c.started = true
	c.mu.Unlock()
	if started {
		return fmt.Errorf("controller %s: Start was called more than once", c.name)
	}
	c.metrics.limit.Set(float64(c.opts.MaxConcurrentReconciles)) // not in the constructor: a manager may reject the controller
	log := c.GetLogger()
	log.Info("Starting Controller")
	defer c.end()
	if err := c.begin(ctx); err != nil || ctx.Err() != nil {
		return err // nil if the controller was stopped meanwhile
	}

	log.Info("Starting workers", "worker count", c.opts.MaxConcurrentReconciles)
	var workers sync.WaitGroup
	for range c.opts.MaxConcurrentReconciles {
		workers.Go(func() { c.work(ctx) })
	}
	log.Info("Started workers", "worker count", c.opts.MaxConcurrentReconciles)
	<-ctx.Done()
	log.Info("Shutdown signal received, waiting for all workers to finish")
	c.queue.ShutDown()
	workers.Wait()
	log.Info("All workers finished")
	return nil
}

// begin starts the sources and waits until they have synced. The first caller does this; others
// wait for it.
func (c *controller[request]) begin(ctx context.Context) error {
	c.mu.Lock()
	if c.ctx != nil {
		c.mu.Unlock()
		select {
		case <-c.begun:
			return c.err
		case <-ctx.Done():
			return nil
		}
	}
	c.queue = workqueue.New(workqueue.Options[request]{
		Name: c.name, RateLimiter: c.opts.RateLimiter, Group: c.opts.Group, Metrics: c.metrics.queues})
	c.ctx, c.cancel = context.WithCancel(logr.NewContext(ctx, c.GetLogger()))
	sources := c.sources
	c.sources = nil
	c.mu.Unlock()
	defer close(c.begun)

	limited := c.ctx
	if c.opts.CacheSyncTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(c.ctx, c.opts.CacheSyncTimeout)
		defer cancel()
	}
	errs := make([]error, len(sources))
	var starting sync.WaitGroup
	for i, s := range sources {
		starting.Go(func() { errs[i] = c.beginSource(limited, s) })
	}
	starting.Wait()
	if c.ctx.Err() == nil { // otherwise the sources did not sync because ctx has ended
		c.err = errors.Join(errs...)
	}
	return c.err
}

func (c *controller[request]) beginSource(limited context.Context, s TypedSource[request]) error {
	log := c.GetLogger().WithValues("source", describe(s))
	log.Info("Starting EventSource")
	if err := c.start(s); err != nil {
		return err
	}
	syncing, ok := s.(TypedSyncingSource[request])
	if !ok {
		return nil
	}
	if err := syncing.WaitForSync(limited); err != nil {
		err = fmt.Errorf("failed to wait for %s caches to sync %s: %w", c.name, describe(s), err)
		if !errors.Is(limited.Err(), context.Canceled) {
			log.Error(err, "Could not wait for Cache to sync")
		}
		return err
	}
	return nil
}

// end stops what begin and Watch have started. Start and Warmup both call it; it returns when the
// sources have stopped.
func (c *controller[request]) end() {
	c.mu.Lock()
	first := !c.ending
	c.ending = true
	c.cancel()
	c.mu.Unlock()
	if !first {
		<-c.ended
		return
	}
	defer close(c.ended)
	c.queue.ShutDown()
	c.starting.Wait()
	c.mu.Lock()
	running := c.running
	c.running = nil
	c.mu.Unlock()
	for _, s := range running {
		if s, ok := s.(stopper); ok {
			s.Stop()
		}
	}
}

// sink returns the queue as sources see it.
func (c *controller[request]) sink() workqueue.TypedRateLimitingInterface[request] {
	if c.tracer != nil {
		return &tracedQueue[request]{c.queue, c.tracer}
	}
	return c.queue
}

// work handles requests until the queue has shut down. Requests that are left are dropped.
func (c *controller[request]) work(ctx context.Context) {
	for {
		r, priority, shutdown := c.queue.GetWithPriority()
		if shutdown {
			return
		}
		switch {
		case ctx.Err() != nil:
		case c.opts.Owns != nil && !c.opts.Owns(r):
			c.queue.Forget(r)
		default:
			c.handle(ctx, r, priority)
		}
		c.queue.Done(r)
	}
}

// handle calls the Reconciler for a request, and adds it again if needed.
func (c *controller[request]) handle(ctx context.Context, r request, priority int) {
	c.metrics.active.Inc()
	defer c.metrics.active.Dec()
	begun := time.Now()
	defer func() { c.metrics.seconds.Observe(time.Since(begun).Seconds()) }()

	id := uuid.NewUUID()
	log := c.opts.LogConstructor(&r).WithValues("reconcileID", id)
	ctx = context.WithValue(logr.NewContext(ctx, log), reconcileID{}, id)
	ctx, end := c.tracer.reconcile(ctx, r)
	result, err := c.Reconcile(ctx, r)
	stopping := ctx.Err() != nil
	if result.Priority != nil {
		priority = *result.Priority
	}

	outcome := resultSuccess
	switch {
	case err != nil:
		outcome = resultError
		c.metrics.errors.Inc()
		if isTerminal(err) {
			c.metrics.terminal.Inc()
		} else {
			c.queue.AddWithOpts(workqueue.AddOpts{RateLimited: true, Priority: priority}, r)
		}
		if result.RequeueAfter > 0 || result.Requeue {
			log.Info("Warning: the Result is ignored, as there is an error")
		}
		if stopping && errors.Is(err, context.Canceled) {
			log.V(1).Info("Reconcile was interrupted")
		} else {
			log.Error(err, "Reconciler error")
		}
	case result.RequeueAfter > 0:
		outcome = resultRequeueAfter
		c.queue.Forget(r)
		c.queue.AddWithOpts(workqueue.AddOpts{After: result.RequeueAfter, Priority: priority}, r)
	case result.Requeue:
		outcome = resultRequeue
		c.queue.AddWithOpts(workqueue.AddOpts{RateLimited: true, Priority: priority}, r)
	default:
		c.queue.Forget(r)
	}
	c.metrics.results[outcome].Inc()
	end(outcome, err)
}

func (c *controller[request]) Reconcile(ctx context.Context, r request) (result Result, err error) {
	if c.opts.ReconciliationTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.opts.ReconciliationTimeout, errTimeout)
		defer cancel()
		defer func() {
			if errors.Is(context.Cause(ctx), errTimeout) {
				c.metrics.timeouts.Inc()
			}
		}()
	}
	returned := false
	defer func() {
		p := recover()
		if returned {
			return
		}
		if p == nil {
			LoggerFrom(ctx).Error(nil, "The Reconciler has called runtime.Goexit: a worker is lost, and the object is not reconciled again")
			return
		}
		c.metrics.panicked.Inc()
		LoggerFrom(ctx).Error(nil, "Observed a panic in the reconciler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if !isTrue(c.opts.RecoverPanic, true) {
			panic(p)
		}
		err = fmt.Errorf("panic: %v [recovered]", p)
	}()
	result, err = c.opts.Reconciler.Reconcile(ctx, r)
	returned = true
	return result, err
}

// describe returns the name of a source for logs and errors.
func describe(s any) string {
	if s, ok := s.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", s)
}

var (
	_ manager.LeaderElectionRunnable = (*controller[Request])(nil)
	_ manager.WarmupRunnable         = (*controller[Request])(nil)
)
