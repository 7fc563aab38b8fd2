package deployment

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// roll takes one step of a rolling update: it scales the current set up, or else the old ones down,
// or else deletes old ones that are no longer needed.
func (o *rollout) roll(ctx context.Context) error {
	if o.current == nil {
		if err := o.create(ctx); err != nil {
			return err
		}
	}
	moved, err := o.scaleCurrent(ctx)
	if err == nil && !moved {
		moved, err = o.scaleOld(ctx)
	}
	if err != nil {
		return err
	}
	return o.finish(ctx, moved)
}

// finish ends a step. A complete rollout does without old ReplicaSets.
func (o *rollout) finish(ctx context.Context, moved bool) error {
	if !moved && o.isComplete(&o.d.Status) {
		if err := o.cleanUp(ctx); err != nil {
			return err
		}
	}
	return o.writeStatus(ctx, o.progress(o.status()))
}

// scaleCurrent gives the current set all replicas, or as many as fit below the surge.
func (o *rollout) scaleCurrent(ctx context.Context) (scaled bool, err error) {
	n, want := *o.current.Spec.Replicas, *o.d.Spec.Replicas
	if n < want {
		want = o.roomFor(n, replicas(o.all()))
	}
	return o.scale(ctx, o.current, want)
}

// scaleOld takes replicas from the old sets: as many as can go without fewer than the minimum being
// available. Those that are not available go first, since they would block the rollout.
//
// Replicas of the current set that are not available yet count as if they were already missing.
// Otherwise a bad template, whose pods never become available, would take the good ones down.
func (o *rollout) scaleOld(ctx context.Context) (scaled bool, err error) {
	if replicas(o.old) == 0 || slices.ContainsFunc(o.all(), overstates) {
		return false, nil
	}
	_, unavailable := o.bounds()
	least := *o.d.Spec.Replicas - unavailable
	starting := *o.current.Spec.Replicas - o.current.Status.AvailableReplicas
	room := replicas(o.all()) - least - starting
	if room <= 0 {
		return false, nil
	}
	unhealthy, err := o.shrink(ctx, room, func(rs *appsv1.ReplicaSet) int32 {
		return *rs.Spec.Replicas - rs.Status.AvailableReplicas
	})
	if err != nil {
		return false, err
	}
	healthy, err := o.shrink(ctx, available(o.all())-least, func(rs *appsv1.ReplicaSet) int32 { return *rs.Spec.Replicas })
	return unhealthy || healthy, err
}

// overstates reports whether a set may have fewer available replicas than its status says, as it
// was scaled since, or has pods that it could not delete yet. Its next status starts another
// reconcile. Kubernetes does not wait for it, and can take away too many pods when a rollout is
// turned back at once.
func overstates(rs *appsv1.ReplicaSet) bool {
	a := rs.Status.AvailableReplicas
	return a > 0 && rs.Status.ObservedGeneration < rs.Generation || a > *rs.Spec.Replicas
}

// shrink takes up to room replicas from the old sets, the oldest first, and from each at most what
// canGo returns.
func (o *rollout) shrink(ctx context.Context, room int32, canGo func(*appsv1.ReplicaSet) int32) (shrunk bool, err error) {
	for _, rs := range active(o.old) {
		n := min(room, canGo(rs))
		if n <= 0 {
			continue
		}
		if _, err := o.scale(ctx, rs, *rs.Spec.Replicas-n); err != nil {
			return shrunk, err
		}
		shrunk = true
		room -= n
	}
	return shrunk, nil
}
