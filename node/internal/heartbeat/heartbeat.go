// Package heartbeat keeps nodes alive that have no kubelet: it renews their Leases, and writes
// their status.
//
// The Reconciler has one lock, and no goroutine besides the workers of its controller, which the
// manager owns.
package heartbeat

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/workqueue"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Options select nodes, and determine what is written for them. All fields are required.
type Options struct {
	// Name is the name of the controller.
	Name string
	// Runs reports whether a node sends heartbeats.
	Runs func(*corev1.Node) bool
	// Labels returns the labels that a node gets if it lacks them.
	Labels func(node string) map[string]string
	// Status returns the status of a node at a time.
	Status func(*corev1.Node, time.Time) corev1.NodeStatus
	// Yields reports whether another program writes the status. The Lease is renewed in any case.
	Yields func() bool
	// LeaseDuration is the duration of Leases, in whole seconds. They are renewed four times in that
	// time.
	LeaseDuration time.Duration
	// StatusInterval is the time between two heartbeats in the status of a node.
	StatusInterval time.Duration
}

// nodes is the Reconciler of the nodes. The queue of its controller holds the times of all
// heartbeats, behind one timer.
type nodes struct {
	Options
	client client.Client

	mu     sync.Mutex
	leases map[string]*lease // by the names of nodes
}

// A lease is the cached state of the Lease of a node. The worker that holds the key of the node
// owns it.
type lease struct {
	node types.UID
	next time.Time // of the next renewal
}

// workers is the number of nodes that are written at a time.
const workers = 4

// Add adds the heartbeats to a manager.
func (o Options) Add(m manager.Manager) error {
	r := &nodes{Options: o, client: m.GetClient(), leases: map[string]*lease{}}
	retry := workqueue.ExponentialBackoff[controller.Request](10*time.Millisecond, o.LeaseDuration/8)
	return controller.NewControllerManagedBy(m).Named(o.Name).
		Watches(&corev1.Node{}, r.changes()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: retry}).
		Complete(r)
}

// changes adds requests for all changes but heartbeats.
func (r *nodes) changes() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			old, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if old.UID != now.UID || r.Runs(old) != r.Runs(now) || !equality.Semantic.DeepEqual(&old.Status, &now.Status) {
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
	if err != nil || !r.Runs(&n) {
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
	if r.Yields() {
		return controller.Result{RequeueAfter: max(time.Until(next), time.Millisecond)}, nil
	}
	status := r.Status(&n, now)
	if err := r.post(ctx, &n, &status); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if due := Due(n.Name, &status, r.StatusInterval); due.Before(next) {
		next = due
	}
	return controller.Result{RequeueAfter: max(time.Until(next), time.Millisecond)}, nil
}

// label adds the labels of every node that a node lacks, as a kubelet does when it starts.
func (r *nodes) label(ctx context.Context, n *corev1.Node) error {
	missing := map[string]string{}
	for key, value := range r.Labels(n.Name) {
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
	interval := r.LeaseDuration / 4
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
	duration := int32(r.LeaseDuration / time.Second)
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

// Healthy sets the conditions of a node without problems, with new heartbeats if they are due.
func Healthy(node string, s *corev1.NodeStatus, interval time.Duration, now time.Time) {
	due := !now.Before(Due(node, s, interval))
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	} {
		s.Conditions = setNodeCondition(s.Conditions, c, due, now)
	}
}

// setNodeCondition sets a condition, with a new heartbeat if that is due or the condition changes.
func setNodeCondition(all []corev1.NodeCondition, c corev1.NodeCondition, due bool, now time.Time) []corev1.NodeCondition {
	c.LastHeartbeatTime, c.LastTransitionTime = podstatus.Seconds(now), podstatus.Seconds(now)
	i := slices.IndexFunc(all, func(is corev1.NodeCondition) bool { return is.Type == c.Type })
	if i < 0 {
		return append(all, c)
	}
	was := &all[i]
	if was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
		if was.Reason == c.Reason && was.Message == c.Message && !due {
			c.LastHeartbeatTime = was.LastHeartbeatTime
		}
	}
	all[i] = c
	return all
}

// Due returns when the next heartbeat in the status of a node is due: once in each interval,
// and at another time in it for each node.
func Due(name string, s *corev1.NodeStatus, interval time.Duration) time.Time {
	i := slices.IndexFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return time.Time{}
	}
	phase := spread(name, interval)
	last := s.Conditions[i].LastHeartbeatTime.Time
	return last.Add(-phase).Truncate(interval).Add(interval + phase)
}

// partial returns an object for the response of a write of which only the metadata is needed.
func partial(kind string, version string, key client.ObjectKey) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}
