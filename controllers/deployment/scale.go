package deployment

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// replicas returns the sum of spec.replicas.
func replicas(sets []*appsv1.ReplicaSet) (sum int32) {
	for _, rs := range sets {
		sum += *rs.Spec.Replicas
	}
	return sum
}

// available returns the sum of status.availableReplicas.
func available(sets []*appsv1.ReplicaSet) (sum int32) {
	for _, rs := range sets {
		sum += rs.Status.AvailableReplicas
	}
	return sum
}

// active returns the sets that want replicas.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(rs *appsv1.ReplicaSet) bool { return *rs.Spec.Replicas == 0 })
}

// bounds returns by how many pods a rollout may exceed and fall below spec.replicas. Only a rolling
// update may do either. Percentages are rounded up for the surge, down for the other; if both are
// 0, one pod may be unavailable, as nothing could move otherwise.
func (o *rollout) bounds() (surge, unavailable int32) {
	rolling := o.d.Spec.Strategy.RollingUpdate
	if o.d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling == nil {
		return 0, 0
	}
	scaled := func(of *intstr.IntOrString, up bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(of, intstr.FromInt32(0)), int(*o.d.Spec.Replicas), up)
		if err != nil {
			return 0 // the server has validated it
		}
		return int32(n)
	}
	surge, unavailable = scaled(rolling.MaxSurge, true), scaled(rolling.MaxUnavailable, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, *o.d.Spec.Replicas)
}

// roomFor returns the number of replicas that the current set, which has n, may have while all sets
// have total.
func (o *rollout) roomFor(n, total int32) int32 {
	want := *o.d.Spec.Replicas
	if o.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return want
	}
	surge, _ := o.bounds()
	return n + max(0, min(want+surge-total, want-n))
}

// isResized reports whether spec.replicas of the Deployment differs from what it was when a set
// with replicas was scaled last.
func (o *rollout) isResized() bool {
	return slices.ContainsFunc(active(o.all()), func(rs *appsv1.ReplicaSet) bool {
		desired, ok := number(rs, desiredAnnotation)
		return ok && desired != *o.d.Spec.Replicas
	})
}

// number returns the value of an annotation of a number of replicas.
func number(rs *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseUint(rs.Annotations[annotation], 10, 32)
	return int32(n), err == nil && n <= math.MaxInt32
}

// resize scales the sets without moving replicas between templates: after spec.replicas has
// changed, and while the Deployment is paused.
func (o *rollout) resize(ctx context.Context) error {
	if err := o.spread(ctx); err != nil {
		return err
	}
	if o.d.Spec.Paused && rollbackTo(o.d) == nil {
		if err := o.cleanUp(ctx); err != nil {
			return err
		}
	}
	return o.writeStatus(ctx, o.status())
}

// spread scales the only set with replicas, or else the latest one, to spec.replicas. During a
// rolling update it spreads the difference over the sets in proportion to their size, which limits
// the damage if the new template is a bad one.
func (o *rollout) spread(ctx context.Context) error {
	sets := active(o.all())
	if only := o.activeOrLatest(sets); only != nil {
		_, err := o.scale(ctx, only, *o.d.Spec.Replicas)
		return err
	}
	if len(sets) == 0 {
		return nil
	}
	if o.isSaturated() {
		for _, rs := range active(o.old) {
			if _, err := o.scale(ctx, rs, 0); err != nil {
				return err
			}
		}
		return nil
	}
	if o.d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return nil
	}
	sizes := o.proportions(sets)
	for i, rs := range sets {
		if err := o.write(ctx, rs, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// activeOrLatest returns the only active set; if none is active, the current or else the latest
// one; nil if several are active, or none exists.
func (o *rollout) activeOrLatest(active []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case o.current != nil:
		return o.current
	case len(o.old) > 0:
		return o.old[len(o.old)-1]
	}
	return nil
}

// isSaturated reports whether the current set has all replicas, and all are available.
func (o *rollout) isSaturated() bool {
	if o.current == nil {
		return false
	}
	want := *o.d.Spec.Replicas
	desired, ok := number(o.current, desiredAnnotation)
	return ok && desired == want && *o.current.Spec.Replicas == want && o.current.Status.AvailableReplicas == want
}

// proportions sorts sets by size, and returns the size that each is to have.
func (o *rollout) proportions(sets []*appsv1.ReplicaSet) []int32 {
	want, allowed := *o.d.Spec.Replicas, int32(0)
	surge, _ := o.bounds()
	if want > 0 {
		allowed = want + surge
	}
	add := allowed - replicas(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		newer := byCreation(b, a)
		if add < 0 { // of sets of one size the older shrinks first
			newer = -newer
		}
		return cmp.Or(cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas), newer)
	})
	sizes, added := make([]int32, len(sets)), int32(0)
	for i, rs := range sets {
		share := int32(0)
		if add > 0 {
			share = min(o.share(rs, allowed), add-added)
		} else if add < 0 {
			share = max(o.share(rs, allowed), add-added)
		}
		sizes[i] = *rs.Spec.Replicas + share
		added += share
	}
	sizes[0] = max(0, sizes[0]+add-added)
	return sizes
}

// share returns by how much a set changes if all change in proportion from the number of pods that
// were allowed when it was scaled last to the number that is allowed now.
func (o *rollout) share(rs *appsv1.ReplicaSet, allowed int32) int32 {
	size := *rs.Spec.Replicas
	if *o.d.Spec.Replicas == 0 {
		return -size
	}
	before, ok := number(rs, maxAnnotation)
	if !ok || before == 0 {
		if before = o.d.Status.Replicas; before == 0 {
			return 0
		}
	}
	return int32(math.Round(float64(size)*float64(allowed)/float64(before))) - size
}

// scale gives a set n replicas, and reports whether it had another number.
func (o *rollout) scale(ctx context.Context, rs *appsv1.ReplicaSet, n int32) (scaled bool, err error) {
	if *rs.Spec.Replicas == n {
		return false, nil
	}
	return true, o.write(ctx, rs, n)
}

// write writes the replicas of a set, and the annotations that remember those of the Deployment,
// unless the set has them.
func (o *rollout) write(ctx context.Context, rs *appsv1.ReplicaSet, n int32) error {
	before := *rs.Spec.Replicas
	next := rs.DeepCopy()
	*next.Spec.Replicas = n
	if changed := o.annotateReplicas(next); !changed && n == before {
		return nil
	}
	if err := o.client.Update(ctx, next); err != nil {
		return err
	}
	o.replace(rs, next)
	if n != before {
		direction := "up"
		if n < before {
			direction = "down"
		}
		o.events.Eventf(o.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, next.Name, before, n)
	}
	return nil
}

// replace replaces a set by its written version.
func (o *rollout) replace(rs, next *appsv1.ReplicaSet) {
	if rs == o.current {
		o.current = next
		return
	}
	if i := slices.Index(o.old, rs); i >= 0 {
		o.old[i] = next
	}
}

// annotateReplicas sets the annotations that remember the replicas of the Deployment, and reports
// whether they have changed.
func (o *rollout) annotateReplicas(rs *appsv1.ReplicaSet) (changed bool) {
	surge, _ := o.bounds()
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for name, n := range map[string]int32{desiredAnnotation: *o.d.Spec.Replicas, maxAnnotation: *o.d.Spec.Replicas + surge} {
		if text := strconv.Itoa(int(n)); rs.Annotations[name] != text {
			rs.Annotations[name], changed = text, true
		}
	}
	return changed
}
