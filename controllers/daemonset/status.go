package daemonset

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// count returns the status that follows from nodes and pods. Of the pods of a node, the oldest
// counts.
func (o *round) count() appsv1.DaemonSetStatus {
	status := appsv1.DaemonSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     o.set.Status.CollisionCount,
		Conditions:         o.set.Status.Conditions,
	}
	for _, node := range o.nodes {
		pods := o.pods[node.name]
		if !node.runs {
			if len(pods) > 0 {
				status.NumberMisscheduled++
			}
			continue
		}
		status.DesiredNumberScheduled++
		if len(pods) == 0 {
			continue
		}
		status.CurrentNumberScheduled++
		sortByAge(pods)
		first := pods[0]
		if pod.Ready(first) {
			status.NumberReady++
			if o.isAvailable(first) {
				status.NumberAvailable++
			}
		}
		if o.isUpdated(first) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status
}

// writeStatus writes a status that differs, and has the next reconcile come when a pod becomes
// available without an event. After a conflict it tries once more, on the set as the server has it.
func (o *round) writeStatus(ctx context.Context) error {
	for _, p := range o.all {
		_, wait := pod.Available(p, o.set.Spec.MinReadySeconds, o.now)
		o.waitFor(wait)
	}
	status := o.count()
	if equality.Semantic.DeepEqual(o.set.Status, status) {
		return nil
	}
	next := *o.set
	next.Status = status
	err := o.client.Status().Update(ctx, &next)
	if !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err) // the set is gone
	}
	live := &appsv1.DaemonSet{}
	if err := o.live.Get(ctx, client.ObjectKeyFromObject(o.set), live); err != nil || live.UID != o.set.UID {
		return client.IgnoreNotFound(err)
	}
	status.CollisionCount, status.Conditions = live.Status.CollisionCount, live.Status.Conditions
	live.Status = status
	return o.client.Status().Update(ctx, live)
}
