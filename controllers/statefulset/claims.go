package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, ordinal)
}

// newClaim returns the claim of a template for an ordinal as it is to be created.
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	c := template.DeepCopy()
	c.Namespace, c.Name = set.Namespace, claimName(set, template, ordinal)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
	return c
}

// claimsOf returns the claims of a pod that exist, by the index of their template. They belong to
// the cache.
func (o *round) claimsOf(ctx context.Context, p *corev1.Pod) (map[int]*corev1.PersistentVolumeClaim, error) {
	all := map[int]*corev1.PersistentVolumeClaim{}
	for i := range o.set.Spec.VolumeClaimTemplates {
		c := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: o.set.Namespace, Name: claimName(o.set, &o.set.Spec.VolumeClaimTemplates[i], ordinal(p))}
		switch err := o.client.Get(ctx, key, c, client.UnsafeDisableDeepCopy); {
		case err == nil:
			all[i] = c
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("failed to retrieve PVC %s: %w", key.Name, err)
		}
	}
	return all, nil
}

// createClaims creates the claims of a pod that do not exist. It returns an error for those that
// are being deleted.
func (o *round) createClaims(ctx context.Context, p *corev1.Pod) error {
	had, err := o.claimsOf(ctx, p)
	if err != nil {
		return err
	}
	var errs []error
	for i := range o.set.Spec.VolumeClaimTemplates {
		if c := had[i]; c != nil {
			if c.DeletionTimestamp != nil {
				errs = append(errs, fmt.Errorf("pvc %s is being deleted", c.Name))
			}
			continue
		}
		c := newClaim(o.set, &o.set.Spec.VolumeClaimTemplates[i], ordinal(p))
		claim := c.Name
		err := o.client.Create(ctx, c)
		switch {
		case err == nil:
			o.events.Eventf(o.set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", claim, p.Name, o.set.Name)
			continue
		case !apierrors.IsAlreadyExists(err):
			o.events.Eventf(o.set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim, p.Name, o.set.Name, err)
		}
		errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", claim, err))
	}
	return utilerrors.NewAggregate(errs)
}

// hasStaleClaim reports whether a claim of a pod that is to be created goes with an earlier pod of
// that name.
func (o *round) hasStaleClaim(ctx context.Context, p *corev1.Pod) (bool, error) {
	if retention(o.set).WhenScaled == appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		return false, nil
	}
	claims, err := o.claimsOf(ctx, p)
	if err != nil {
		return false, err
	}
	for _, c := range claims {
		if isStale(c, p, podKind) {
			return true, nil
		}
	}
	return false, nil
}

// ownClaims makes the owners of a pod's claims those of the retention policy.
func (o *round) ownClaims(ctx context.Context, p *corev1.Pod) error {
	claims, err := o.claimsOf(ctx, p)
	if err != nil {
		return err
	}
	for i := range o.set.Spec.VolumeClaimTemplates {
		c := claims[i]
		if c == nil {
			continue // the next reconcile
		}
		if hasOtherController(c, o.set, p) {
			o.events.Eventf(o.set, corev1.EventTypeWarning, "ConflictingController",
				"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", c.Name)
		}
		owners, ok := owners(c, o.set, p)
		if ok {
			continue
		}
		next := c.DeepCopy()
		next.OwnerReferences = owners
		if err := o.client.Update(ctx, next); err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", c.Name, err)
		}
	}
	return nil
}

// ownsClaims reports whether the owners of a pod's claims are those of the retention policy.
func (o *round) ownsClaims(ctx context.Context, p *corev1.Pod) (bool, error) {
	claims, err := o.claimsOf(ctx, p)
	if err != nil {
		return false, err
	}
	for _, c := range claims {
		if _, ok := owners(c, o.set, p); !ok {
			return false, nil
		}
	}
	return true, nil
}

func retention(set *appsv1.StatefulSet) appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return *policy
	}
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	return appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: retain}
}

// owners returns the owners that a claim is to have, and whether it has them. The set is one of
// them if its deletion deletes the claim, the pod if its end does: that of a pod that scaling down
// has condemned. Claims of an earlier set or pod of that name are left alone, and those of other
// controllers are given up.
func owners(c *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, p *corev1.Pod) (next []metav1.OwnerReference, ok bool) {
	if isStale(c, set, kind) || isStale(c, p, podKind) {
		return nil, true
	}
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	policy := retention(set)
	condemned := !hasOrdinal(set, ordinal(p))
	wantSet := policy.WhenDeleted == remove && (policy.WhenScaled == retain || !condemned)
	wantPod := policy.WhenScaled == remove && condemned
	if hasOtherController(c, set, p) {
		wantSet, wantPod = false, false
	}
	hasSet, hasPod, ok := false, false, true
	for _, ref := range c.OwnerReferences {
		isSet, isPod := ref.UID == set.UID, ref.UID == p.UID
		hasSet, hasPod = hasSet || isSet, hasPod || isPod
		if (isSet || isPod) && !isController(ref) {
			ok = false
		}
	}
	if ok && hasSet == wantSet && hasPod == wantPod {
		return nil, true
	}
	next = slices.DeleteFunc(slices.Clone(c.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return refersTo(ref, set, kind) || refersTo(ref, p, podKind)
	})
	if wantSet {
		next = append(next, *metav1.NewControllerRef(set, kind))
	}
	if wantPod {
		next = append(next, *metav1.NewControllerRef(p, podKind))
	}
	return next, false
}

// refersTo reports whether a reference is to an object of this name, or an earlier one.
func refersTo(ref metav1.OwnerReference, o metav1.Object, kind schema.GroupVersionKind) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == o.GetName()
}

func isController(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// isStale reports whether a claim refers to an earlier object of this name.
func isStale(c *corev1.PersistentVolumeClaim, o metav1.Object, kind schema.GroupVersionKind) bool {
	i := slices.IndexFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return refersTo(ref, o, kind) })
	return i >= 0 && c.OwnerReferences[i].UID != o.GetUID()
}

// hasOtherController reports whether another controller than the set and the pod owns a claim that
// the retention policy concerns.
func hasOtherController(c *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, p *corev1.Pod) bool {
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if policy := retention(set); policy.WhenScaled == retain && policy.WhenDeleted == retain {
		return false
	}
	return slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case refersTo(ref, set, kind):
			return ref.UID != set.UID
		case refersTo(ref, p, podKind):
			return ref.UID != p.UID
		}
		return isController(ref)
	})
}
