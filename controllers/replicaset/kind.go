package replicaset

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A set is what the two kinds have in common. It shares memory with its object, which belongs to
// the cache.
type set struct {
	object            client.Object
	replicas          int32
	minReadySeconds   int32
	selector          labels.Selector
	template          *corev1.PodTemplateSpec
	status            appsv1.ReplicaSetStatus
	countsTerminating bool
}

// A kind reads and writes the sets of a kind.
type kind struct {
	gvk        schema.GroupVersionKind
	object     func() client.Object // an empty one
	objectList func() client.ObjectList
	items      func(client.ObjectList) []client.Object
	view       func(client.Object) (*set, error)
	// withStatus returns a copy of an object with another status.
	withStatus func(client.Object, appsv1.ReplicaSetStatus) client.Object
}

func (k *kind) get(ctx context.Context, r client.Reader, key client.ObjectKey) (*set, error) {
	o := k.object()
	if err := r.Get(ctx, key, o, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return k.view(o)
}

// list returns the sets of a namespace, without those whose selector is invalid.
func (k *kind) list(ctx context.Context, r client.Reader, namespace string) ([]*set, error) {
	list := k.objectList()
	if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return k.views(list), nil
}

// ownedBy returns the sets that the object with a uid controls, as list.
func (k *kind) ownedBy(ctx context.Context, r client.Reader, namespace string, owner types.UID) ([]*set, error) {
	list := k.objectList()
	if err := owned.List(ctx, r, list, namespace, owner); err != nil {
		return nil, err
	}
	return k.views(list), nil
}

func (k *kind) views(list client.ObjectList) (sets []*set) {
	for _, o := range k.items(list) {
		if s, err := k.view(o); err == nil {
			sets = append(sets, s)
		}
	}
	return sets
}

var replicaSets = kind{
	gvk:        appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	object:     func() client.Object { return &appsv1.ReplicaSet{} },
	objectList: func() client.ObjectList { return &appsv1.ReplicaSetList{} },
	items: func(list client.ObjectList) (all []client.Object) {
		for _, rs := range owned.Pointers(list.(*appsv1.ReplicaSetList).Items) {
			all = append(all, rs)
		}
		return all
	},
	view: func(o client.Object) (*set, error) {
		rs := o.(*appsv1.ReplicaSet)
		selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		if err != nil {
			return nil, err
		}
		return &set{
			object: rs, replicas: *rs.Spec.Replicas, minReadySeconds: rs.Spec.MinReadySeconds, selector: selector,
			template: &rs.Spec.Template, status: rs.Status, countsTerminating: true,
		}, nil
	},
	withStatus: func(o client.Object, status appsv1.ReplicaSetStatus) client.Object {
		rs := *o.(*appsv1.ReplicaSet)
		rs.Status = status
		return &rs
	},
}

// The status of a ReplicationController has the fields and conditions of that of a ReplicaSet,
// except terminatingReplicas.
var replicationControllers = kind{
	gvk:        corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	object:     func() client.Object { return &corev1.ReplicationController{} },
	objectList: func() client.ObjectList { return &corev1.ReplicationControllerList{} },
	items: func(list client.ObjectList) (all []client.Object) {
		for _, rc := range owned.Pointers(list.(*corev1.ReplicationControllerList).Items) {
			all = append(all, rc)
		}
		return all
	},
	view: func(o client.Object) (*set, error) {
		rc := o.(*corev1.ReplicationController)
		status := appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas: rc.Status.ReadyReplicas, AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		}
		for _, c := range rc.Status.Conditions {
			status.Conditions = append(status.Conditions, appsv1.ReplicaSetCondition{
				Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			})
		}
		return &set{
			object: rc, replicas: *rc.Spec.Replicas, minReadySeconds: rc.Spec.MinReadySeconds,
			selector: labels.Set(rc.Spec.Selector).AsSelectorPreValidated(), template: rc.Spec.Template, status: status,
		}, nil
	},
	withStatus: func(o client.Object, status appsv1.ReplicaSetStatus) client.Object {
		rc := *o.(*corev1.ReplicationController)
		rc.Status = corev1.ReplicationControllerStatus{
			Replicas: status.Replicas, FullyLabeledReplicas: status.FullyLabeledReplicas,
			ReadyReplicas: status.ReadyReplicas, AvailableReplicas: status.AvailableReplicas, ObservedGeneration: status.ObservedGeneration,
		}
		for _, c := range status.Conditions {
			rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
				Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			})
		}
		return &rc
	},
}
