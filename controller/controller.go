package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"
)

// A Controller calls its Reconciler for what its sources put into its queue.
type Controller interface {
	// Reconcile calls the Reconciler as the controller does: a panic is an error, and the context ends after the ReconciliationTimeout.
	Reconciler
	// Watch adds a source. If the controller runs, it starts at once. It is an error if the controller has been told to end.
	Watch(Source) error
	// Start runs the controller until the context ends, and returns when its workers have ended; or fails if a source does not
	// start, or does not sync. It can be called once. A manager does so.
	Start(context.Context) error
	GetLogger() logr.Logger
}

var (
	errTimeout = errors.New("reconciliation timeout") // the cause of the end of a context
	errEnded   = errors.New("the controller has ended")
)

type controller struct {
	name    string
	opts    Options
	metrics *metrics
	tracer  *tracer
	queue   *workqueue.Queue[Request]

	mu       sync.Mutex
	sources  []Source        // to be started
	running  []Source        // to be stopped
	starting sync.WaitGroup  // of sources; none is added when ctx has ended
	ctx      context.Context // of the sources; nil before they start
	cancel   context.CancelFunc
	begun    chan struct{} // closed when the sources have started and synced, or err says why not
	err      error
	started  bool
	ending   bool
	ended    chan struct{} // closed when the sources have been stopped
}

// New makes a controller, and adds it to a manager. Its name must be unique in the manager.
func New(name string, m manager.Manager, opts Options) (Controller, error) {
	if m == nil {
		return nil, errors.New("controller: the manager is nil")
	}
	opts.inherit(m)
	c, err := newController(name, opts)
	if err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

// NewUnmanaged makes a controller that the caller starts.
func NewUnmanaged(name string, opts Options) (Controller, error) { return newController(name, opts) }

func newController(name string, opts Options) (*controller, error) {
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
	return &controller{name: name, opts: opts, metrics: m, tracer: newTracer(opts.TracerProvider, name),
		begun: make(chan struct{}), ended: make(chan struct{})}, nil
}

// ControllerName has a manager refuse a second controller of the name. It is "" if that is allowed.
func (c *controller) ControllerName() string {
	if isTrue(c.opts.SkipNameValidation, false) {
		return ""
	}
	return c.name
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *controller) NeedLeaderElection() bool { return isTrue(c.opts.NeedLeaderElection, true) }

func (c *controller) GetLogger() logr.Logger { return c.opts.LogConstructor(nil) }

func (c *controller) Watch(s Source) error {
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

// start starts a source, unless the controller ends. No lock is held meanwhile: the source, and its handler, may call Watch.
func (c *controller) start(s Source) error {
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

// Warmup implements manager.WarmupRunnable. It ends with the context, as Start may never be called.
func (c *controller) Warmup(ctx context.Context) error {
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

func (c *controller) Start(ctx context.Context) error {
	c.mu.Lock()
	started := c.started
	c.started = true
	c.mu.Unlock()
	if started {
		return fmt.Errorf("controller %s: it was started more than once", c.name)
	}
	c.metrics.limit.Set(float64(c.opts.MaxConcurrentReconciles)) // not when it is made: a manager may refuse it
	log := c.GetLogger()
	log.Info("Starting Controller")
	defer c.end()
	if err := c.begin(ctx); err != nil || ctx.Err() != nil {
		return err // nil if it was told to end meanwhile
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

// begin starts the sources, and waits until they have synced. Whoever calls it first does so, others wait.
func (c *controller) begin(ctx context.Context) error {
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
	c.queue = workqueue.New(workqueue.Options[Request]{
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
	if c.ctx.Err() == nil { // else the sources did not sync because of that
		c.err = errors.Join(errs...)
	}
	return c.err
}

func (c *controller) beginSource(limited context.Context, s Source) error {
	log := c.GetLogger().WithValues("source", describe(s))
	log.Info("Starting EventSource")
	if err := c.start(s); err != nil {
		return err
	}
	syncing, ok := s.(SyncingSource)
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

// end ends what begin and Watch have started. Both Start and Warmup call it: it returns when that is done, whoever does it.
func (c *controller) end() {
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

// sink is the queue as sources get it.
func (c *controller) sink() handler.Queue {
	if c.tracer != nil {
		return &tracedQueue{c.queue, c.tracer}
	}
	return c.queue
}

// work handles requests until the queue has shut down. What is left then is for the next who starts.
func (c *controller) work(ctx context.Context) {
	for {
		r, priority, shutdown := c.queue.GetWithPriority()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			c.handle(ctx, r, priority)
		}
		c.queue.Done(r)
	}
}

// handle calls the Reconciler for a request, and queues it again if need be.
func (c *controller) handle(ctx context.Context, r Request, priority int) {
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

func (c *controller) Reconcile(ctx context.Context, r Request) (result Result, err error) {
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

// describe names a source in logs and errors.
func describe(s Source) string {
	if s, ok := s.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", s)
}

var (
	_ manager.LeaderElectionRunnable = (*controller)(nil)
	_ manager.WarmupRunnable         = (*controller)(nil)
)
