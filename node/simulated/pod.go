package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/podip"
	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// pods is the Reconciler of pods on simulated nodes.
type pods struct {
	client    client.Client
	events    *recorder.Recorder
	addresses *podip.Addresses
	yields    func(schema.GroupKind) bool
	waiting   *waiting

	mu     sync.Mutex
	warned map[types.UID]string // of errors of annotations
}

func addPods(m manager.Manager, o Options, events *recorder.Recorder) error {
	r := &pods{client: m.GetClient(), events: events, addresses: podip.New(), yields: o.Yields, waiting: newWaiting(), warned: map[types.UID]string{}}
	b := controller.NewControllerManagedBy(m).Named("simulated-pods")
	if o.OnYields != nil {
		b = b.WatchesRawSource(r.resumes(o.OnYields))
	}
	return b.Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		Watches(&corev1.ConfigMap{}, r.wakes(kindConfigMap)).
		Watches(&corev1.Secret{}, r.wakes(kindSecret)).
		Watches(&corev1.PersistentVolumeClaim{}, r.wakes(kindClaim)).
		Watches(&resourcev1.ResourceClaim{}, r.wakes(kindResource)).
		WithOptions(controller.Options{MaxConcurrentReconciles: podWorkers, RateLimiter: retries(time.Minute)}).
		Complete(r)
}

func (r *pods) podEvents() handler.Funcs {
	changed := func(o client.Object, q handler.Queue) {
		if p := o.(*corev1.Pod); p.Spec.NodeName != "" {
			r.addresses.Observe(p)
			q.Add(handler.RequestFor(p))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.forget(e.ObjectOld)
			}
			changed(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, _ handler.Queue) { r.forget(e.Object) },
	}
}

// forget forgets a pod that is gone.
func (r *pods) forget(o client.Object) {
	r.addresses.Release(o.GetUID())
	r.waiting.forget(client.ObjectKeyFromObject(o))
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.warned, o.GetUID())
}

// nodeEvents adds requests for the pods of a node when a part changes that pods depend on.
func (r *pods) nodeEvents() handler.Funcs {
	all := func(ctx context.Context, node string, q handler.Queue) {
		var list corev1.PodList
		if err := r.client.List(ctx, &list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
			return // the cache has ended
		}
		for i := range list.Items {
			q.Add(handler.RequestFor(&list.Items[i]))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
			if n := e.Object.(*corev1.Node); Runs(n) {
				all(ctx, n.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
			old, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if !Runs(now) {
				return
			}
			if !Runs(old) || old.UID != now.UID || !hostOf(old).equal(hostOf(now)) {
				all(ctx, now.Name, q)
			}
		},
	}
}

// resumes adds requests for all pods when another program may have stopped to change them.
func (r *pods) resumes(onYields func(func(schema.GroupKind))) controller.SourceFunc {
	return func(ctx context.Context, q handler.Queue) error {
		onYields(func(gk schema.GroupKind) {
			var list corev1.PodList
			if gk != podKind || r.yields(podKind) || r.client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.Stale) != nil {
				return // the cache has ended
			}
			for i := range list.Items {
				q.Add(handler.RequestFor(&list.Items[i]))
			}
		})
		return nil
	}
}

// wakes adds requests for the pods that wait for an object.
func (r *pods) wakes(kind string) handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { r.waiting.wake(kind, e.Object, q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) { r.waiting.wake(kind, e.ObjectNew, q) },
	}
}

// Reconcile implements controller.Reconciler.
func (r *pods) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var p corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if p.Spec.NodeName == "" {
		return controller.Result{}, nil
	}
	var n corev1.Node
	if err := r.client.Get(ctx, client.Key("", p.Spec.NodeName), &n, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if !Runs(&n) || len(n.Status.Addresses) == 0 || r.yields(podKind) {
		return controller.Result{}, nil
	}
	in := input{pod: &p, node: hostOf(&n), simulation: r.simulation(&p), now: time.Now()}
	if err := r.find(ctx, &in, &n); err != nil {
		return controller.Result{}, err
	}
	out := advance(in)
	if err := r.write(ctx, &p, &out); err != nil {
		return controller.Result{}, err
	}
	if out.next.IsZero() || out.gone {
		return controller.Result{}, nil
	}
	return controller.Result{RequeueAfter: max(time.Until(out.next), time.Millisecond)}, nil
}

// simulation returns how a pod behaves. An error of its annotation is an event, once.
func (r *pods) simulation(p *corev1.Pod) simulation {
	s, err := simulationOf(p)
	if err == nil {
		return s
	}
	r.mu.Lock()
	told := r.warned[p.UID] == err.Error()
	r.warned[p.UID] = err.Error()
	r.mu.Unlock()
	if !told {
		r.events.Record(p, recorder.Event{Type: corev1.EventTypeWarning, Reason: "InvalidSimulation", Message: err.Error()})
	}
	return s
}

// find finds the addresses of a pod, and the missing objects that keep its containers from
// starting.
func (r *pods) find(ctx context.Context, in *input, n *corev1.Node) error {
	p := in.pod
	key := client.ObjectKeyFromObject(p)
	if podstatus.Ended(p.Status.Phase) || p.DeletionTimestamp != nil || !starts(p) {
		r.waiting.forget(key)
		return nil
	}
	if !p.Spec.HostNetwork && p.Status.PodIP == "" {
		in.podIPs = r.addresses.Of(p.UID, podip.RangesOf(n))
	}
	refs := refs(p)
	if len(refs) == 0 && len(p.Spec.ResourceClaims) == 0 {
		r.waiting.forget(key)
		return nil
	}
	// An object that appears between the reads and the registration would be missed.
	r.waiting.set(key, refs)
	read := &reading{ctx: ctx, client: r.client, pod: p}
	var err error
	if in.needs, err = read.needs(); err != nil {
		return err
	}
	if in.needs.empty() {
		r.waiting.forget(key)
	}
	return nil
}

// starts reports whether a container of a pod may be started.
func starts(p *corev1.Pod) bool {
	s := &p.Status
	if len(s.ContainerStatuses) < len(p.Spec.Containers) || len(s.EphemeralContainerStatuses) < len(p.Spec.EphemeralContainers) {
		return true
	}
	for i := range s.ContainerStatuses {
		if s.ContainerStatuses[i].State.Running == nil {
			return true
		}
	}
	for i := range s.InitContainerStatuses {
		if is := &s.InitContainerStatuses[i].State; is.Running == nil && (is.Terminated == nil || is.Terminated.ExitCode != 0) {
			return true
		}
	}
	return false
}

// write writes the outcome of a look: events, the status, and the deletion, in this order.
func (r *pods) write(ctx context.Context, p *corev1.Pod, out *outcome) error {
	key := client.ObjectKeyFromObject(p)
	patch, err := podstatus.Patch(p, &out.status)
	if err != nil {
		return err
	}
	if patch != nil {
		err := r.client.Status().Patch(ctx, partial("Pod", "v1", key), client.RawPatch(types.StrategicMergePatchType, patch))
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.report(p, out.events, patch != nil)
	if kept := p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0; !out.gone || kept {
		return nil // kept by finalizers
	}
	err = r.client.Delete(ctx, partial("Pod", "v1", key), client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	return client.IgnoreNotFound(err)
}

// report records the events of a look. Those of changes belong to a write, and standing ones are
// recorded when they are new.
func (r *pods) report(p *corev1.Pod, events []event, wrote bool) {
	standing := r.waiting.tell(client.ObjectKeyFromObject(p), events)
	for _, e := range events {
		if e.standing && standing || !e.standing && wrote {
			r.events.Record(p, e.record())
		}
	}
}
