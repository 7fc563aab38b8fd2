package disruption

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
)

// An expectation is the number of pods that a budget requires.
type expectation struct {
	pods      int32 // all that there should be
	desired   int32 // those that must be healthy
	unmanaged bool  // there are pods without a controller, which pods does not count
}

// expect returns the expectation of a budget. A number of pods that must be available counts those
// that exist; otherwise the expected number is that of the controllers of the pods.
func (r *reconciler) expect(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (e expectation, err error) {
	switch most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable; {
	case most != nil:
		if e.pods, e.unmanaged, err = r.scales.sum(ctx, pods); err != nil {
			return e, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(most, int(e.pods), true)
		if err != nil {
			return e, err
		}
		e.desired = max(0, e.pods-int32(n))
	case least == nil:
	case least.Type == intstr.Int:
		e.pods, e.desired = int32(len(pods)), least.IntVal
	default:
		if e.pods, e.unmanaged, err = r.scales.sum(ctx, pods); err != nil {
			return e, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(least, int(e.pods), true)
		if err != nil {
			return e, err
		}
		e.desired = int32(n)
	}
	return e, nil
}

// scales knows how many pods controllers should have.
type scales struct {
	client    client.Client
	mapper    meta.RESTMapper
	discovery discovery.DiscoveryInterface
}

// sum returns the number of pods that the controllers of some pods should have, and whether some
// have no controller.
func (s scales) sum(ctx context.Context, pods []*corev1.Pod) (n int32, unmanaged bool, err error) {
	counted := map[types.UID]bool{} // controllers of pods
	owners := map[types.UID]int32{} // those, or their own
	for _, p := range pods {
		by := metav1.GetControllerOfNoCopy(p)
		if by == nil {
			unmanaged = true
			continue
		}
		if counted[by.UID] {
			continue
		}
		counted[by.UID] = true
		owner, replicas, err := s.of(ctx, p.Namespace, by)
		if err != nil {
			return 0, unmanaged, err
		}
		if owner == "" {
			return 0, unmanaged, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		owners[owner] = replicas
	}
	for _, replicas := range owners {
		n += replicas
	}
	return n, unmanaged, nil
}

// of returns the scale of the controller of a pod, and its uid. For a ReplicaSet of a Deployment
// they are those of the Deployment. The uid is empty if the controller does not exist.
func (s scales) of(ctx context.Context, namespace string, by *metav1.OwnerReference) (types.UID, int32, error) {
	gv, err := schema.ParseGroupVersion(by.APIVersion)
	if err != nil {
		return "", 0, err
	}
	switch apps := gv.Group == appsv1.GroupName || gv.Group == "extensions"; {
	case by.Kind == "ReplicationController" && gv.Group == "":
		var rc corev1.ReplicationController
		if s.found(ctx, namespace, by, &rc) {
			return rc.UID, replicas(rc.Spec.Replicas), nil
		}
	case by.Kind == "ReplicaSet" && apps:
		var rs appsv1.ReplicaSet
		if !s.found(ctx, namespace, by, &rs) {
			break
		}
		owner := metav1.GetControllerOfNoCopy(&rs)
		if owner == nil || owner.Kind != "Deployment" {
			return rs.UID, replicas(rs.Spec.Replicas), nil
		}
		var d appsv1.Deployment
		if s.found(ctx, namespace, owner, &d) {
			return d.UID, replicas(d.Spec.Replicas), nil
		}
	case by.Kind == "StatefulSet" && gv.Group == appsv1.GroupName:
		var set appsv1.StatefulSet
		if s.found(ctx, namespace, by, &set) {
			return set.UID, replicas(set.Spec.Replicas), nil
		}
	}
	return s.subresource(ctx, namespace, gv.WithKind(by.Kind), by)
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// found reads the object of a reference from the cache, and reports whether it exists.
func (s scales) found(ctx context.Context, namespace string, ref *metav1.OwnerReference, o client.Object) bool {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, o, client.UnsafeDisableDeepCopy)
	return err == nil && o.GetUID() == ref.UID
}

// subresource reads the scale of a controller of any kind from the server.
func (s scales) subresource(ctx context.Context, namespace string, kind schema.GroupVersionKind, by *metav1.OwnerReference) (types.UID, int32, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", 0, err
	}
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(mapping.GroupVersionKind)
	owner.SetNamespace(namespace)
	owner.SetName(by.Name)
	var scale autoscalingv1.Scale
	switch err := s.client.SubResource("scale").Get(ctx, owner, &scale); {
	case apierrors.IsNotFound(err):
		has, err := s.hasScale(mapping.Resource)
		if err != nil {
			return "", 0, err
		}
		if !has {
			return "", 0, fmt.Errorf("%s does not implement the scale subresource", mapping.Resource.GroupResource())
		}
		return "", 0, nil
	case err != nil:
		return "", 0, err
	}
	if scale.UID != by.UID {
		return "", 0, nil
	}
	return scale.UID, scale.Spec.Replicas, nil
}

// hasScale reports whether the objects of a resource have a scale.
func (s scales) hasScale(of schema.GroupVersionResource) (bool, error) {
	list, err := s.discovery.ServerResourcesForGroupVersion(of.GroupVersion().String())
	if err != nil {
		return false, err
	}
	for _, r := range list.APIResources {
		if r.Name == of.Resource+"/scale" && r.Kind == "Scale" {
			return true, nil
		}
	}
	return false, nil
}
