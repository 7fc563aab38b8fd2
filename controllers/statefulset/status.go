package statefulset

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// count returns the status that follows from the pods.
func (o *round) count() appsv1.StatefulSetStatus {
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: o.set.Generation,
		CurrentRevision:    o.current.Name,
		UpdateRevision:     o.update.Name,
		CollisionCount:     &o.collisions,
		Conditions:         o.set.Status.Conditions,
	}
	for _, p := range o.pods {
		if ordinal(p) < 0 {
			continue
		}
		status.Replicas++
		if isReady(p) {
			status.ReadyReplicas++
			if o.isAvailable(p) {
				status.AvailableReplicas++
			}
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(p) == o.current.Name {
			status.CurrentReplicas++
		}
		if revisionOf(p) == o.update.Name {
			status.UpdatedReplicas++
		}
	}
	return status
}

// isReady reports whether a pod runs and is ready.
func isReady(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && pod.Ready(p) }

// isAvailable reports whether a pod has been ready for minReadySeconds.
func (o *round) isAvailable(p *corev1.Pod) bool {
	available, _ := pod.Available(p, o.set.Spec.MinReadySeconds, o.now)
	return available
}

// canServe reports whether a pod is available and stays so.
func (o *round) canServe(p *corev1.Pod) bool { return o.isAvailable(p) && p.DeletionTimestamp == nil }

// untilAvailable returns the time after which a pod becomes available without an event; 0 if there
// is none.
func (o *round) untilAvailable() (wait time.Duration) {
	for _, p := range o.pods {
		if _, after := pod.Available(p, o.set.Spec.MinReadySeconds, o.now); after > 0 && (wait == 0 || after < wait) {
			wait = after
		}
	}
	return wait
}

// writeStatus writes a status that differs. When all replicas have the revision of the update, it
// becomes the current one. After a conflict writeStatus tries once more, on the set as the server
// has it.
func (o *round) writeStatus(ctx context.Context) error {
	status, want := o.status, *o.set.Spec.Replicas
	if status.UpdatedReplicas == want && status.ReadyReplicas == want && status.Replicas == want {
		status.CurrentReplicas = status.UpdatedReplicas
		status.CurrentRevision = status.UpdateRevision
	}
	if equality.Semantic.DeepEqual(o.set.Status, status) {
		return nil
	}
	next := *o.set
	next.Status = status
	err := o.client.Status().Update(ctx, &next)
	if !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err) // the set is gone
	}
	live := &appsv1.StatefulSet{}
	if err := o.live.Get(ctx, client.ObjectKeyFromObject(o.set), live); err != nil || live.UID != o.set.UID {
		return client.IgnoreNotFound(err)
	}
	live.Status = status
	return o.client.Status().Update(ctx, live)
}
