package simulated

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodes is the Reconciler of simulated nodes. The queue of its controller holds the times of all
// heartbeats, behind one timer.
type nodes struct {
	options Options
	client  client.Client

	mu     sync.Mutex
	leases map[string]*lease // by the names of nodes
}

// A lease is the cached state of the Lease of a node. The worker that holds the key of the node owns it.
type lease struct {
	node types.UID
	next time.Time // of the next renewal
}

func addNodes(m manager.Manager, o Options) error {
	r := &nodes{options: o, client: m.GetClient(), leases: map[string]*lease{}}
	return controller.NewControllerManagedBy(m).Named("simulated-nodes").
		Watches(&corev1.Node{}, nodeEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: nodeWorkers, RateLimiter: retries(r.options.LeaseDuration / 8)}).
		Complete(r)
}

// nodeEvents adds requests for all changes but heartbeats.
func nodeEvents() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			old, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if old.UID != now.UID || Runs(old) != Runs(now) || !equality.Semantic.DeepEqual(&old.Status, &now.Status) {
				q.Add(handler.RequestFor(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
	}
}

// Reconcile implements controller.Reconciler: it sends the heartbeats that are due.
func (r *nodes) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var n corev1.Node
	err := r.client.Get(ctx, req.NamespacedName, &n, client.UnsafeDisableDeepCopy)
	if err != nil || !Runs(&n) {
		r.forget(req.Name)
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.label(ctx, &n); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	now := time.Now()
	next, err := r.beat(ctx, &n, now)
	if err != nil {
		return controller.Result{}, err
	}
	if r.options.Yields(nodeKind) {
		return controller.Result{RequeueAfter: max(time.Until(next), time.Millisecond)}, nil
	}
	status := r.options.nodeStatus(&n, now)
	if err := r.post(ctx, &n, &status); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if due := heartbeat(n.Name, &status, r.options.StatusInterval); due.Before(next) {
		next = due
	}
	return controller.Result{RequeueAfter: max(time.Until(next), time.Millisecond)}, nil
}

// label adds the labels of every node that a node lacks, as a kubelet does when it starts.
func (r *nodes) label(ctx context.Context, n *corev1.Node) error {
	missing := map[string]string{}
	for key, value := range usualLabels(n.Name) {
		if _, has := n.Labels[key]; !has {
			missing[key] = value
		}
	}
	if len(missing) == 0 {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": missing}})
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, partial("Node", "v1", client.ObjectKeyFromObject(n)), client.RawPatch(types.MergePatchType, data))
}

// usualLabels are the labels that every node has.
func usualLabels(name string) map[string]string {
	return map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: operatingSystem, corev1.LabelArchStable: architecture}
}

// post writes the status of a node, if it has changed.
func (r *nodes) post(ctx context.Context, n *corev1.Node, status *corev1.NodeStatus) error {
	if equality.Semantic.DeepEqual(&n.Status, status) {
		return nil
	}
	data, err := nodePatch(n, status)
	if err != nil {
		return err
	}
	return r.client.Status().Patch(ctx, partial("Node", "v1", client.ObjectKeyFromObject(n)), client.RawPatch(types.StrategicMergePatchType, data))
}

// nodePatch returns the strategic merge patch to a status. A heartbeat changes conditions only.
func nodePatch(n *corev1.Node, status *corev1.NodeStatus) ([]byte, error) {
	same := *status
	same.Conditions = n.Status.Conditions
	if equality.Semantic.DeepEqual(&n.Status, &same) {
		return json.Marshal(map[string]any{"status": map[string]any{"conditions": status.Conditions}})
	}
	next := n.DeepCopy()
	next.Status = *status
	return client.StrategicMergeFrom(n).Data(next)
}

// beat renews the Lease of a node if that is due, and returns when it is due next.
func (r *nodes) beat(ctx context.Context, n *corev1.Node, now time.Time) (time.Time, error) {
	l := r.lease(n)
	if now.Before(l.next) {
		return l.next, nil
	}
	interval := r.options.LeaseDuration / 4
	if l.next.IsZero() {
		if err := r.takeLease(ctx, n, now); err != nil {
			return now, err
		}
		// At whole seconds, so that the nodes of a second are served in one go.
		l.next = now.Truncate(time.Second).Add(time.Second + spread(n.Name, interval))
		return l.next, nil
	}
	err := r.patchLease(ctx, n.Name, leasePatch{Spec: leaseSpec{RenewTime: metav1.NewMicroTime(now)}})
	if apierrors.IsNotFound(err) {
		err = r.takeLease(ctx, n, now)
	}
	if err != nil {
		return now, err
	}
	if l.next = l.next.Add(interval); !now.Before(l.next) {
		l.next = now.Add(interval) // some were missed
	}
	return l.next, nil
}

// spread returns a time in an interval, which is another one for each node: the heartbeats of many
// nodes are spread over the interval.
func spread(name string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(name))
	return time.Duration(h.Sum64()%uint64(interval/time.Second)) * time.Second
}

// takeLease creates the Lease of a node, or renews one that is there.
func (r *nodes) takeLease(ctx context.Context, n *corev1.Node, now time.Time) error {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	duration := int32(r.options.LeaseDuration / time.Second)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.Name, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &duration, RenewTime: new(metav1.NewMicroTime(now))},
	}
	err := r.client.Create(ctx, l, client.Stale)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return r.patchLease(ctx, n.Name, leasePatch{
		Metadata: &leaseMeta{[]metav1.OwnerReference{owner}},
		Spec:     leaseSpec{HolderIdentity: n.Name, LeaseDurationSeconds: duration, RenewTime: metav1.NewMicroTime(now)},
	})
}

// A leasePatch is a merge patch of a Lease.
type leasePatch struct {
	Metadata *leaseMeta `json:"metadata,omitempty"`
	Spec     leaseSpec  `json:"spec"`
}

type leaseMeta struct {
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

type leaseSpec struct {
	HolderIdentity       string           `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds int32            `json:"leaseDurationSeconds,omitempty"`
	RenewTime            metav1.MicroTime `json:"renewTime"`
}

func (r *nodes) patchLease(ctx context.Context, node string, patch leasePatch) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	key := client.Key(corev1.NamespaceNodeLease, node)
	return r.client.Patch(ctx, partial("Lease", "coordination.k8s.io/v1", key), client.RawPatch(types.MergePatchType, data), client.Stale)
}

// lease returns the cached state of the Lease of a node, and an empty one after another node of the
// same name.
func (r *nodes) lease(n *corev1.Node) *lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[n.Name]
	if l == nil || l.node != n.UID {
		l = &lease{node: n.UID}
		r.leases[n.Name] = l
	}
	return l
}

func (r *nodes) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, name)
}
