package deployment

import (
	"context"

	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
)

// recreate takes one step of the strategy Recreate: it scales the old sets to zero, waits until
// their pods have ended, and only then creates the current set and scales it up.
func (o *rollout) recreate(ctx context.Context) error {
	shrunk := false
	for _, rs := range active(o.old) {
		scaled, err := o.scale(ctx, rs, 0)
		if err != nil {
			return err
		}
		shrunk = shrunk || scaled
	}
	if shrunk {
		return o.finish(ctx, true)
	}
	switch running, err := o.oldPodsRun(ctx); {
	case err != nil:
		return err
	case running:
		return o.finish(ctx, true)
	}
	if o.current == nil {
		if err := o.create(ctx); err != nil {
			return err
		}
	}
	if _, err := o.scale(ctx, o.current, *o.d.Spec.Replicas); err != nil {
		return err
	}
	return o.finish(ctx, false)
}

// oldPodsRun reports whether a pod of an old set may still run. Pods count that are being deleted;
// those do not that have ended.
func (o *rollout) oldPodsRun(ctx context.Context) (bool, error) {
	for _, rs := range o.old {
		if rs.Status.Replicas > 0 {
			return true, nil
		}
		var pods corev1.PodList
		if err := owned.List(ctx, o.client, &pods, o.d.Namespace, rs.UID); err != nil {
			return false, err
		}
		for _, p := range owned.Pointers(pods.Items) {
			if !pod.Ended(p) {
				return true, nil
			}
		}
	}
	return false, nil
}
