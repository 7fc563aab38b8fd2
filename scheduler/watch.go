package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The plugins whose refusal an event may end.
var (
	ofNodes  = []string{noNodes, "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", ofDevices, "NodeDeclaredFeatures"}
	ofLeft   = []string{"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "PodTopologySpread", "InterPodAffinity"}
	ofPlaced = []string{"PodTopologySpread", "InterPodAffinity"}
)

// noNodes stands for the plugin that refuses a pod when there are no nodes.
const noNodes = "there are no nodes"

// watch hands all that happens to the goroutine of Start. It returns when all that exists has been
// handed over. The returned function ends it.
func (s *scheduler) watch(ctx context.Context) (stop func(), err error) {
	var ends []func()
	stop = func() {
		for _, end := range ends {
			end()
		}
	}
	all, err := s.withInterests([]watched{
		{&corev1.Namespace{}, handler{s.setNamespace, s.removeNamespace}},
		{&corev1.Service{}, handler{s.setService, s.removeService}},
		{&corev1.ReplicationController{}, handler{s.setOwner, s.removeOwner}},
		{&appsv1.ReplicaSet{}, handler{s.setOwner, s.removeOwner}},
		{&appsv1.StatefulSet{}, handler{s.setOwner, s.removeOwner}},
		{&storagev1.StorageClass{}, handler{s.setStorageClass, s.removeStorageClass}},
		{&storagev1.CSIStorageCapacity{}, handler{s.setCapacity, s.removeCapacity}},
		{&storagev1.CSIDriver{}, handler{s.setCSIDriver, s.removeCSIDriver}},
		{&storagev1.CSINode{}, handler{s.setCSINode, s.removeCSINode}},
		{&storagev1.VolumeAttachment{}, handler{s.setAttachment, s.removeAttachment}},
		{&corev1.PersistentVolume{}, handler{s.setVolume, s.removeVolume}},
		{&corev1.PersistentVolumeClaim{}, handler{s.setClaim, s.removeClaim}},
		{&resourcev1.DeviceClass{}, handler{s.setDeviceClass, s.removeDeviceClass}},
		{&resourcev1.ResourceSlice{}, handler{s.setResourceSlice, s.removeResourceSlice}},
		{&resourcev1.DeviceTaintRule{}, handler{s.setDeviceTaintRule, s.removeDeviceTaintRule}},
		{&resourcev1.ResourceClaim{}, handler{s.setResourceClaim, s.removeResourceClaim}},
		{&policyv1.PodDisruptionBudget{}, handler{s.setBudget, s.removeBudget}},
		{&corev1.Node{}, handler{s.setNode, s.removeNode}},
		{&corev1.Pod{}, handler{s.setPod, s.removePod}},
	})
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if known, err := s.serves(w.kind); err != nil {
			stop()
			return nil, err
		} else if !known {
			continue
		}
		informer, err := s.cache.GetInformer(ctx, w.kind)
		switch {
		case ctx.Err() != nil:
			stop()
			return func() {}, nil
		case err != nil:
			stop()
			return nil, err
		}
		r, err := informer.AddEventHandler(w.handler.in(s.inbox))
		if err != nil {
			stop()
			return nil, err
		}
		ends = append(ends, func() { _ = informer.RemoveEventHandler(r) }) // it has ended already
		for !r.HasSynced() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				stop()
				return func() {}, nil
			}
		}
	}
	return stop, nil
}

// serves reports whether the server has a kind. Older servers have no kinds of devices, or not all.
func (s *scheduler) serves(o client.Object) (bool, error) {
	gvk, err := s.client.GroupVersionKindFor(o)
	if err != nil || gvk.Group != resourcev1.GroupName {
		return err == nil, err
	}
	_, err = s.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// watched is a kind of objects that the scheduler watches.
type watched struct {
	kind    client.Object
	handler handler
}

// A handler is called by the goroutine of Start. old is nil for a new object.
type handler struct {
	set    func(old, object client.Object)
	remove func(object client.Object)
}

func (h handler) in(b *inbox) cache.EventHandler {
	return posted{h, b}
}

// posted is a cache.EventHandler that sends events to an inbox.
type posted struct {
	handler
	inbox *inbox
}

func (p posted) OnAdd(o client.Object, _ bool)    { p.inbox.put(func() { p.set(nil, o) }) }
func (p posted) OnUpdate(old, o client.Object)    { p.inbox.put(func() { p.set(old, o) }) }
func (p posted) OnDelete(o client.Object, _ bool) { p.inbox.put(func() { p.remove(o) }) }

func (s *scheduler) setNamespace(old, o client.Object) {
	s.cluster.SetNamespace(o.GetName(), o.GetLabels())
	if old == nil || !equality.Semantic.DeepEqual(old.GetLabels(), o.GetLabels()) {
		s.queue.happened(time.Now(), "InterPodAffinity")
	}
}

func (s *scheduler) removeNamespace(o client.Object) { s.cluster.RemoveNamespace(o.GetName()) }

func (s *scheduler) setService(_, o client.Object) {
	s.cluster.SetService(o.GetNamespace(), o.GetName(), o.(*corev1.Service).Spec.Selector)
}

func (s *scheduler) removeService(o client.Object) {
	s.cluster.RemoveService(o.GetNamespace(), o.GetName())
}

func (s *scheduler) setOwner(_, o client.Object) {
	kind, selector := ownerOf(o)
	s.cluster.SetOwner(kind, o.GetNamespace(), o.GetName(), selector)
}

func (s *scheduler) removeOwner(o client.Object) {
	kind, _ := ownerOf(o)
	s.cluster.SetOwner(kind, o.GetNamespace(), o.GetName(), nil)
}

// ownerOf returns the kind and the selector of a controller of pods.
func ownerOf(o client.Object) (kind string, selector labels.Selector) {
	var of *metav1.LabelSelector
	switch o := o.(type) {
	case *corev1.ReplicationController:
		return "ReplicationController", labels.SelectorFromSet(o.Spec.Selector)
	case *appsv1.ReplicaSet:
		kind, of = "ReplicaSet", o.Spec.Selector
	case *appsv1.StatefulSet:
		kind, of = "StatefulSet", o.Spec.Selector
	}
	selector, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return kind, nil
	}
	return kind, selector
}

func (s *scheduler) setNode(old, o client.Object) {
	n := o.(*corev1.Node)
	if old != nil && sameNode(old.(*corev1.Node), n) {
		s.cluster.RefreshNode(n)
		return // a heartbeat
	}
	s.cluster.SetNode(n)
	s.queue.happened(time.Now(), ofNodes...)
}

// sameNode reports whether two states of a node are the same for all rules.
func sameNode(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.Spec.Unschedulable == b.Spec.Unschedulable && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) && equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable) &&
		equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images) && slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}

func (s *scheduler) removeNode(o client.Object) { s.cluster.RemoveNode(o.GetName()) }

// ended reports whether a pod needs no node any more.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (s *scheduler) setPod(old, o client.Object) {
	p, now := o.(*corev1.Pod), time.Now()
	switch {
	case ended(p):
		s.removePod(p)
	case p.Spec.NodeName != "":
		known := s.cluster.Has(p.UID)
		s.queue.remove(p.UID)
		delete(s.assumed, p.UID)
		s.cluster.SetPod(p)
		switch before, _ := old.(*corev1.Pod); {
		case !known || before != nil && !equality.Semantic.DeepEqual(before.Labels, p.Labels):
			s.queue.happened(now, ofPlaced...)
		case before != nil && before.DeletionTimestamp == nil && p.DeletionTimestamp != nil:
			s.queue.happened(now, "PodTopologySpread")
		case before != nil && !equality.Semantic.DeepEqual(before.Spec.Containers, p.Spec.Containers): // resized
			s.queue.happened(now, "NodeResourcesFit")
		}
	case s.assumed[p.UID]:
	case s.profiles[p.Spec.SchedulerName] == nil, p.DeletionTimestamp != nil, len(p.Spec.SchedulingGates) > 0:
		s.forget(p)
	default:
		before, _ := old.(*corev1.Pod)
		s.follow(before, p)
		moved := before != nil && (!equality.Semantic.DeepEqual(before.Spec, p.Spec) || !equality.Semantic.DeepEqual(before.Labels, p.Labels) ||
			!equality.Semantic.DeepEqual(before.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses))
		s.queue.set(p, moved, now)
	}
}

// follow keeps the nomination of a pod up to date. Between the decision and the update of the
// status, the nomination that is known here counts.
func (s *scheduler) follow(before, p *corev1.Pod) {
	node := p.Status.NominatedNodeName
	if before != nil && before.Status.NominatedNodeName == node {
		node = s.cluster.Nominated(p.UID)
	}
	s.nominate(p, node)
}

// forget removes a pod that is not to be placed. Those that yielded to it are retried.
func (s *scheduler) forget(p *corev1.Pod) {
	s.queue.remove(p.UID)
	s.nominate(p, "")
}

func (s *scheduler) removePod(o client.Object) {
	p := o.(*corev1.Pod)
	s.forget(p)
	s.waiting.end(p.UID, errGone)
	delete(s.assumed, p.UID)
	if s.cluster.Has(p.UID) {
		s.cluster.RemovePod(p.UID)
		s.queue.happened(time.Now(), ofLeft...)
	}
}
