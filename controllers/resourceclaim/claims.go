package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// done reports whether no container of a pod runs, or ever will.
func done(p *corev1.Pod) bool {
	return pod.Ended(p) || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}

// reconcileClaim removes unused reservations and allocations.
func (r *reconciler) reconcileClaim(ctx context.Context, key client.ObjectKey) error {
	var claim resourcev1.ResourceClaim
	if err := r.client.Get(ctx, key, &claim, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	var remaining []resourcev1.ResourceClaimConsumerReference
	for _, c := range claim.Status.ReservedFor {
		uses, err := r.uses(ctx, claim.Namespace, c)
		if err != nil {
			return err
		}
		if uses {
			remaining = append(remaining, c)
		}
	}
	if err := r.release(ctx, claim.DeepCopy(), remaining); err != nil {
		return err
	}
	if len(remaining) > 0 {
		return nil
	}
	return r.deleteUnused(ctx, &claim)
}

// uses reports whether a consumer of a claim may still use it. Consumers that are no pods are
// unknown and keep it.
func (r *reconciler) uses(ctx context.Context, namespace string, c resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if c.APIGroup != "" || c.Resource != "pods" {
		return true, nil
	}
	var p corev1.Pod
	key := client.ObjectKey{Namespace: namespace, Name: c.Name}
	err := r.client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy)
	if err == nil {
		return p.UID == c.UID && !done(&p), nil
	}
	if apierrors.IsNotFound(err) { // or not known yet, while the scheduler reserves the claim
		p = corev1.Pod{}
		err = r.live.Get(ctx, key, &p)
	}
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return p.UID == c.UID, nil
}

// release removes consumers from a claim. The end of the last one frees its devices, so that the
// claim can be allocated elsewhere, and removes the finalizer that protects them. A claim that is
// allocated without ever having had a consumer keeps its devices until it is deleted.
func (r *reconciler) release(ctx context.Context, claim *resourcev1.ResourceClaim, remaining []resourcev1.ResourceClaimConsumerReference) error {
	protected := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	unused := len(remaining) == 0
	switch {
	case len(remaining) < len(claim.Status.ReservedFor):
		claim.Status.ReservedFor = remaining
		if unused && protected {
			claim.Status.Allocation = nil
		}
	case unused && protected && claim.DeletionTimestamp != nil:
		if claim.Status.Allocation == nil {
			return r.unprotect(ctx, claim)
		}
		claim.Status.Allocation = nil
	default:
		return nil
	}
	if err := r.client.Status().Update(ctx, claim); err != nil {
		return err
	}
	if claim.Status.Allocation != nil {
		return nil
	}
	return r.unprotect(ctx, claim)
}

func (r *reconciler) unprotect(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if !client.RemoveFinalizer(claim, resourcev1.Finalizer) {
		return nil
	}
	return r.client.Update(ctx, claim)
}

// deleteUnused deletes a claim that was made for a pod which has ended or was replaced. The garbage
// collector deletes those of pods that are gone.
func (r *reconciler) deleteUnused(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	name, uid := owner(claim)
	if name == "" {
		return nil
	}
	var p corev1.Pod
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, &p, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if p.UID == uid && !done(&p) {
		return nil
	}
	gone := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if err := r.client.Delete(ctx, gone, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete unused generated claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// owner returns the pod that controls a claim.
func owner(claim *resourcev1.ResourceClaim) (string, types.UID) {
	by := metav1.GetControllerOfNoCopy(claim)
	if by == nil || by.APIVersion != "v1" || by.Kind != "Pod" {
		return "", ""
	}
	return by.Name, by.UID
}
