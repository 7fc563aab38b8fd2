package stages

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/podip"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

const (
	workers = 8
	// longestRetry limits the time between two tries of a step.
	longestRetry = time.Minute
)

// A player plays the stages of one kind. It is the Reconciler of its objects.
type player struct {
	kind      kind
	nodes     simulated.Options
	set       *set
	client    client.Client
	config    *rest.Config
	options   client.Options // of impersonating clients
	events    record.EventRecorder
	log       logr.Logger
	addresses *podip.Addresses
	templates gotpl.Renderer

	rendering sync.Mutex // held while a template is rendered
	rendered  string     // the node of the object

	mu    sync.Mutex
	plans map[client.ObjectKey]*plan
	users map[string]client.Client // by the names of users that steps impersonate
	queue handler.Queue            // nil before the controller starts
}

// A plan is what happens next to an object. The worker that holds the key of the object owns it,
// but for stale.
type plan struct {
	stale    atomic.Bool // stages have changed since the stage was chosen
	uid      types.UID
	revision string           // of the object for which the stage was chosen
	stage    *lifecycle.Stage // nil: nothing happens until the object or the stages change
	due      time.Time
	step     int              // the next one, after others have succeeded
	over     *lifecycle.Stage // that was played, or has failed, at this revision
	tries    int              // of a step that failed

	played time.Time // when the object was changed last
	streak int       // number of changes that followed each other at once
}

const (
	// shortestPause and longestPause are the times between the changes of an object by stages without
	// delays.
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
	// reportedAfter is the number of tries of a request after which the player reports its failure.
	reportedAfter = 3
)

// pause returns the least time between the last change of an object and the next.
func (p *plan) pause() time.Duration {
	return min(shortestPause<<min(p.streak, 10), longestPause)
}

func newPlayer(m manager.Manager, nodes simulated.Options, s *set, k kind) *player {
	p := &player{
		kind: k, nodes: nodes, set: s, client: m.GetClient(), config: m.GetConfig(), options: client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()},
		events: m.GetEventRecorderFor("kwok"), log: m.GetLogger(), addresses: podip.New(), plans: map[client.ObjectKey]*plan{}, users: map[string]client.Client{},
	}
	p.templates = gotpl.NewRenderer(p.functions())
	return p
}

// add adds the controller of the kind, which may be defined later.
func (p *player) add(m manager.Manager) error {
	c, err := controller.New(nameOf(p.kind), m, controller.Options{
		Reconciler: p, MaxConcurrentReconciles: workers, CacheSyncTimeout: -1,
		RateLimiter: workqueue.ExponentialBackoff[controller.Request](10*time.Millisecond, longestRetry),
	})
	if err != nil {
		return err
	}
	keep := controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queue = q
		return nil
	})
	if err := c.Watch(keep); err != nil {
		return err
	}
	if err := c.Watch(controller.Kind(m.GetCache(), newObject(p.kind), p.objectEvents())); err != nil {
		return err
	}
	if p.kind != podKind {
		return nil
	}
	return c.Watch(controller.Kind(m.GetCache(), newObject(nodeKind), p.nodeEvents()))
}

func (p *player) objectEvents() handler.Funcs {
	changed := func(o client.Object, q handler.Queue) {
		if pod, ok := o.(*corev1.Pod); ok {
			p.addresses.Observe(pod)
		}
		q.Add(handler.RequestFor(o))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) { changed(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
			p.addresses.Release(e.Object.GetUID())
			q.Add(handler.RequestFor(e.Object))
		},
	}
}

// nodeEvents adds all pods when a node begins to be simulated.
func (p *player) nodeEvents() handler.Funcs {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, _ handler.Queue) {
			if !simulated.Runs(e.ObjectOld.(*corev1.Node)) && simulated.Runs(e.ObjectNew.(*corev1.Node)) {
				_ = p.again(ctx) // fails only when the cache has ended
			}
		},
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, _ handler.Queue) {
			if simulated.Runs(e.Object.(*corev1.Node)) {
				_ = p.again(ctx)
			}
		},
	}
}

// again lets stages be chosen anew for all objects. An object for which the same one is chosen
// keeps its delay.
func (p *player) again(ctx context.Context) error {
	p.mu.Lock()
	q := p.queue
	for _, pl := range p.plans {
		pl.stale.Store(true)
	}
	p.mu.Unlock()
	if q == nil {
		return nil // the initial list follows
	}
	list := newList(p.kind)
	if err := p.client.List(ctx, list, client.UnsafeDisableDeepCopy, client.Stale); err != nil {
		return fmt.Errorf("list %s: %w", p.kind, err)
	}
	return meta.EachListItem(list, func(o runtime.Object) error {
		q.Add(handler.RequestFor(o.(client.Object)))
		return nil
	})
}

// Reconcile implements controller.Reconciler: it chooses the stage of an object, and plays it when
// it is due.
func (p *player) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	o := newObject(p.kind)
	err := p.client.Get(ctx, req.NamespacedName, o, client.UnsafeDisableDeepCopy)
	if err != nil || !p.plays(o) {
		p.forget(req.NamespacedName)
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	pl := p.planOf(req.NamespacedName, o.GetUID())
	now := time.Now()
	if stale := pl.stale.Swap(false); stale || pl.revision != o.GetResourceVersion() {
		if err := p.choose(ctx, o, pl, now); err != nil {
			p.fail(o, err)
		}
	}
	if pl.stage == nil {
		return controller.Result{}, nil
	}
	if wait := pl.due.Sub(now); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	changed, err := p.play(ctx, o, pl)
	if err != nil {
		if pl.tries++; pl.tries == reportedAfter {
			p.fail(o, err)
		}
		return controller.Result{}, err
	}
	if now.Sub(pl.played) < 2*pl.pause() {
		pl.streak++
	} else {
		pl.streak = 0
	}
	next := pl.stage.ImmediateNextStage() && changed
	pl.stage, pl.over, pl.played = nil, pl.stage, now
	if next {
		return controller.Result{RequeueAfter: time.Nanosecond}, nil
	}
	return controller.Result{}, nil
}

// fail reports what stages do wrong with an object by an event; with an Event, which the same
// stages may select, in the log.
func (p *player) fail(o client.Object, err error) {
	if p.kind.Kind == "Event" {
		p.log.Error(err, "stage", "namespace", o.GetNamespace(), "name", o.GetName())
		return
	}
	p.events.Event(o, corev1.EventTypeWarning, failedReason, err.Error())
}

// plays reports whether stages apply to an object: pods and nodes must be simulated.
func (p *player) plays(o client.Object) bool {
	switch o := o.(type) {
	case *corev1.Node:
		return simulated.Runs(o)
	case *corev1.Pod:
		n := p.node(o.Spec.NodeName)
		return n != nil && simulated.Runs(n)
	}
	return true
}

// choose chooses the stage of an object, and when it is due.
func (p *player) choose(ctx context.Context, o client.Object, pl *plan, now time.Time) error {
	event := eventOf(o)
	stage, err := p.set.match(ctx, p.kind, event)
	same := pl.revision == o.GetResourceVersion()
	if !same {
		pl.revision, pl.over = o.GetResourceVersion(), nil
	}
	switch {
	case err != nil || stage == nil || stage == pl.over:
		pl.stage = nil
		return err
	case same && stage == pl.stage:
		return nil
	}
	pl.stage, pl.step, pl.tries, pl.due = stage, 0, 0, now
	err = guarded(func() error {
		delay, _, err := stage.Delay(ctx, event, now)
		pl.due = now.Add(delay)
		return err
	})
	if err != nil { // it is played without a delay, as by KWOK
		pl.due, err = now, fmt.Errorf("stage %s: delay: %w", stage.Name(), err)
	}
	if earliest := pl.played.Add(pl.pause()); pl.due.Before(earliest) {
		pl.due = earliest
	}
	return err
}

func (p *player) planOf(key client.ObjectKey, uid types.UID) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plans[key]
	if pl == nil || pl.uid != uid {
		pl = &plan{uid: uid}
		p.plans[key] = pl
	}
	return pl
}

func (p *player) forget(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, key)
}
