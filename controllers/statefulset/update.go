package statefulset

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// partition returns the number of replicas that an update leaves alone: those with the lowest
// ordinals.
func (o *round) partition() int {
	if r := o.set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return int(*r.Partition)
	}
	return 0
}

// maxUnavailable returns how many replicas an update may take away at once, at least 1.
func (o *round) maxUnavailable() (int, error) {
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, int(*o.set.Spec.Replicas), false)
	return max(1, n), err
}

// roll deletes pods of other revisions than the update's, the highest ordinals first, as long as
// maxUnavailable allows it. The next reconcile creates them again.
func (o *round) roll(ctx context.Context) error {
	if o.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return nil
	}
	room, err := o.maxUnavailable()
	if err != nil {
		return err
	}
	for _, p := range o.replicas {
		if !o.canServe(p) {
			room--
		}
	}
	var old []*corev1.Pod
	for i, p := range slices.Backward(o.replicas) {
		if i >= o.partition() && revisionOf(p) != o.update.Name && p.DeletionTimestamp == nil {
			old = append(old, p)
		}
	}
	if o.inParallel() {
		// Unavailable ones are deleted at once: otherwise they could use up maxUnavailable forever.
		for _, p := range old {
			if !o.isAvailable(p) {
				if err := o.replace(ctx, p); err != nil {
					return err
				}
			}
		}
		old = slices.DeleteFunc(old, func(p *corev1.Pod) bool { return !o.isAvailable(p) })
	}
	for _, p := range old[:min(len(old), max(0, room))] {
		if err := o.replace(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// replace deletes a pod, so that it is created with another revision.
func (o *round) replace(ctx context.Context, p *corev1.Pod) error {
	if err := o.delete(ctx, p); err != nil {
		return err
	}
	o.status.CurrentReplicas--
	return nil
}
