// Package attachdetach attaches volumes of CSI drivers to the nodes of the pods that use them, and
// detaches them when no pod does.
//
// The driver attaches the volume: this controller creates a VolumeAttachment, the driver reports in
// its status that the volume is attached, and the controller adds it to
// node.status.volumesAttached, after which the node may mount it. A volume that is no longer used
// is removed from that list before its VolumeAttachment is deleted, and only after
// node.status.volumesInUse shows that the node has unmounted it. There are two exceptions: the node
// is out of service, or it has not been ready for six minutes.
//
// Volumes and nodes have requests of their own (desired.go, attach.go, detach.go, status.go). The
// state of volumes is derived from the VolumeAttachments, so a restart loses only the backoff of
// retries. A volume whose access modes do not allow several nodes never has two VolumeAttachments.
//
// One worker handles all requests and owns the state of the reconciler. The package starts no
// goroutine.
package attachdetach

import (
	"context"
	"errors"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"
)

const (
	name = "persistentvolume-attach-detach-controller"

	// attachTimeout is the time that a driver has to attach a volume before an attempt has failed.
	attachTimeout = 2 * time.Minute
	// unmountTimeout is the time after which a volume is detached from a node that is not ready,
	// although the node has not unmounted it.
	unmountTimeout = 6 * time.Minute
	// The pauses after failed attempts, which double.
	firstPause, lastPause = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
	// reaction is the time in which a new attempt looks at an earlier failure of the driver again.
	reaction = 500 * time.Millisecond

	byNode   = "spec.nodeName"
	byClaim  = "kapok.dev/volume-claims"
	byVolume = "spec.source.persistentVolumeName"
	byDriver = "spec.csi.driver"
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{
		client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("attachdetach-controller"),
		volumes: map[string]*volume{}, managed: map[string]bool{},
	}
	for _, i := range []struct {
		of     client.Object
		name   string
		values client.IndexerFunc
	}{
		{&corev1.Pod{}, byNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }},
		{&corev1.Pod{}, byClaim, func(o client.Object) []string { return claims(o.(*corev1.Pod)) }},
		{&corev1.PersistentVolume{}, byDriver, func(o client.Object) []string { return driverOf(o.(*corev1.PersistentVolume)) }},
		{&storagev1.VolumeAttachment{}, byNode, func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }},
		{&storagev1.VolumeAttachment{}, byVolume, func(o client.Object) []string { return volumeOf(o.(*storagev1.VolumeAttachment)) }},
	} {
		err := m.GetFieldIndexer().IndexField(context.Background(), i.of, i.name, i.values)
		if err != nil && !errors.Is(err, cache.ErrIndexExists) {
			return err
		}
	}
	return controller.TypedControllerManagedBy[request](m).Named(name).
		Watches(&corev1.Pod{}, each(r.addPod)).
		Watches(&corev1.PersistentVolumeClaim{}, each(addClaim)).
		Watches(&corev1.PersistentVolume{}, each(addVolume)).
		Watches(&storagev1.VolumeAttachment{}, each(addAttachment)).
		Watches(&storagev1.CSIDriver{}, each(r.addDriver)).
		Watches(&corev1.Node{}, r.nodes()).
		WithOptions(controller.TypedOptions[request]{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// A request is a PersistentVolume, or a node.
type request struct {
	node bool
	name string
}

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

// each returns a handler of all events of an object.
func each(add func(context.Context, client.Object, queue)) funcs {
	return funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// claims returns the names of the claims that a pod uses.
func claims(p *corev1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(p, v))
		}
	}
	return names
}

func driverOf(v *corev1.PersistentVolume) []string {
	if v.Spec.CSI == nil {
		return nil
	}
	return []string{v.Spec.CSI.Driver}
}

func volumeOf(a *storagev1.VolumeAttachment) []string {
	if v := a.Spec.Source.PersistentVolumeName; v != nil {
		return []string{*v}
	}
	return nil
}

// addPod adds the volumes of a pod.
func (r *reconciler) addPod(ctx context.Context, o client.Object, q queue) {
	p := o.(*corev1.Pod)
	if p.Spec.NodeName == "" {
		return
	}
	for _, name := range claims(p) {
		var claim corev1.PersistentVolumeClaim
		err := r.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, &claim, client.UnsafeDisableDeepCopy)
		if err == nil {
			addClaim(ctx, &claim, q)
		}
	}
}

func addClaim(_ context.Context, o client.Object, q queue) {
	if v := o.(*corev1.PersistentVolumeClaim).Spec.VolumeName; v != "" {
		q.Add(request{name: v})
	}
}

func addVolume(_ context.Context, o client.Object, q queue) { q.Add(request{name: o.GetName()}) }

func addAttachment(_ context.Context, o client.Object, q queue) {
	a := o.(*storagev1.VolumeAttachment)
	for _, v := range volumeOf(a) {
		q.Add(request{name: v})
	}
	q.Add(request{node: true, name: a.Spec.NodeName})
}

// addDriver adds the volumes of a driver: whether it wants attachments may have changed.
func (r *reconciler) addDriver(ctx context.Context, o client.Object, q queue) {
	var list corev1.PersistentVolumeList
	if err := r.client.List(ctx, &list, client.MatchingFields{byDriver: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has ended
	}
	for i := range list.Items {
		q.Add(request{name: list.Items[i].Name})
	}
}

// nodes returns the handler of events of nodes: a node, and if something has changed for them the
// volumes of its pods and attachments.
func (r *reconciler) nodes() funcs {
	all := func(ctx context.Context, node string, q queue) {
		q.Add(request{node: true, name: node})
		var attachments storagev1.VolumeAttachmentList
		if r.client.List(ctx, &attachments, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy) == nil {
			for i := range attachments.Items {
				addAttachment(ctx, &attachments.Items[i], q)
			}
		}
		var pods corev1.PodList
		if r.client.List(ctx, &pods, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy) == nil {
			for i := range pods.Items {
				r.addPod(ctx, &pods.Items[i], q)
			}
		}
	}
	return funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { all(ctx, e.Object.GetName(), q) },
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) {
			was, is := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			switch {
			case isManaged(was) != isManaged(is), ready(was) != ready(is), outOfService(was) != outOfService(is),
				!equality.Semantic.DeepEqual(was.Status.VolumesInUse, is.Status.VolumesInUse):
				all(ctx, is.Name, q)
			case !equality.Semantic.DeepEqual(was.Status.VolumesAttached, is.Status.VolumesAttached):
				q.Add(request{node: true, name: is.Name})
			}
		},
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) { all(ctx, e.Object.GetName(), q) },
	}
}

// reconciler is the Reconciler of volumes and nodes. Its state belongs to its one worker.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder

	volumes map[string]*volume // by the names of the PersistentVolumes
	managed map[string]bool    // nodes that have had the annotation
}

// A volume is the state of a PersistentVolume with attachments.
type volume struct {
	pods  map[types.UID]bool // that use it, once all references between pod, claim and volume were right
	links map[string]*link   // by node
}

// A link is the state of a volume at a node.
type link struct {
	unique    corev1.UniqueVolumeName
	unsure    string        // name of a VolumeAttachment that may have been created; "" if there is none
	announced bool          // an event has told that the volume is attached
	waits     bool          // an event has told that the volume is attached elsewhere
	inUse     bool          // by the node, when it was seen last
	leaving   bool          // is being detached: the node must not mount it
	since     time.Time     // of the wish to detach; zero if there is none
	began     time.Time     // of the attempt to attach; zero if there is none
	until     time.Time     // no attempt before
	pause     time.Duration // after the last failure
}

// failed sets the pause before the next attempt.
func (l *link) failed() {
	l.pause = min(max(2*l.pause, firstPause), lastPause)
	l.until, l.began = time.Now().Add(l.pause), time.Time{}
}

func (v *volume) link(node string) *link {
	if v.links[node] == nil {
		v.links[node] = &link{}
	}
	return v.links[node]
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	if req.node {
		return controller.Result{}, r.report(ctx, req.name)
	}
	again, err := r.reconcileVolume(ctx, req.name)
	if err != nil || again.IsZero() {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: max(time.Until(again), time.Millisecond)}, nil
}
