package deployment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	reasonAvailable = "NewReplicaSetAvailable"
	reasonTimedOut  = "ProgressDeadlineExceeded"
	reasonPaused    = "DeploymentPaused"
)

// writeStatus writes a status that differs from that of the Deployment.
func (o *rollout) writeStatus(ctx context.Context, status appsv1.DeploymentStatus) error {
	if equality.Semantic.DeepEqual(o.d.Status, status) {
		return nil
	}
	o.d.Status = status
	return o.client.Status().Update(ctx, o.d)
}

// status returns the status that follows from the ReplicaSets, without an estimate of progress.
func (o *rollout) status() appsv1.DeploymentStatus {
	sets := o.all()
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  o.d.Generation,
		AvailableReplicas:   available(sets),
		UnavailableReplicas: max(0, replicas(sets)-available(sets)),
		TerminatingReplicas: terminating(sets),
		CollisionCount:      o.d.Status.CollisionCount,
		Conditions:          slices.Clone(o.d.Status.Conditions),
	}
	for _, rs := range sets {
		status.Replicas += rs.Status.Replicas
		status.ReadyReplicas += rs.Status.ReadyReplicas
	}
	if o.current != nil {
		status.UpdatedReplicas = o.current.Status.Replicas
	}
	if _, unavailable := o.bounds(); status.AvailableReplicas >= *o.d.Spec.Replicas-unavailable {
		setCondition(&status, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		setCondition(&status, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	return status
}

// terminating returns the number of pods that are being deleted, or nil if a set does not tell its
// own. A set that its controller has not seen yet has none.
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	sum := new(int32)
	for _, rs := range sets {
		switch n := rs.Status.TerminatingReplicas; {
		case n != nil:
			*sum += *n
		case rs.Status.ObservedGeneration != 0:
			return nil
		}
	}
	return sum
}

// progress adds to a status the condition Progressing, and ReplicaFailure where a ReplicaSet has
// it.
func (o *rollout) progress(status appsv1.DeploymentStatus) appsv1.DeploymentStatus {
	had := condition(&o.d.Status, appsv1.DeploymentProgressing)
	if !o.hasDeadline() {
		removeCondition(&status, appsv1.DeploymentProgressing)
	} else if done := had != nil && had.Reason == reasonAvailable && status.Replicas == status.UpdatedReplicas; !done {
		o.estimate(&status, had)
	}
	if failure := o.failure(); failure != nil {
		set(&status, *failure)
	} else {
		removeCondition(&status, appsv1.DeploymentReplicaFailure)
	}
	return status
}

// estimate sets the condition Progressing of a rollout that is under way.
func (o *rollout) estimate(status *appsv1.DeploymentStatus, had *appsv1.DeploymentCondition) {
	what := fmt.Sprintf("Deployment %q", o.d.Name)
	if o.current != nil {
		what = fmt.Sprintf("ReplicaSet %q", o.current.Name)
	}
	switch {
	case o.isComplete(status):
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonAvailable, what+" has successfully progressed.")
	case o.isProgress(status):
		// It replaces a condition of the same reason, since the deadline restarts at lastUpdateTime.
		removeCondition(status, appsv1.DeploymentProgressing)
		next := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", what+" is progressing.")
		if had != nil && had.Status == corev1.ConditionTrue {
			next.LastTransitionTime = had.LastTransitionTime
		}
		set(status, next)
	case o.isTimedOut(condition(status, appsv1.DeploymentProgressing)):
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut, what+" has timed out progressing.")
	}
}

// isComplete reports whether all replicas are of the current template and available.
func (o *rollout) isComplete(status *appsv1.DeploymentStatus) bool {
	want := *o.d.Spec.Replicas
	return status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want &&
		status.ObservedGeneration >= o.d.Generation
}

// isProgress reports whether a status is better than that of the Deployment.
func (o *rollout) isProgress(status *appsv1.DeploymentStatus) bool {
	before := &o.d.Status
	return status.UpdatedReplicas > before.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		status.ReadyReplicas > before.ReadyReplicas ||
		status.AvailableReplicas > before.AvailableReplicas
}

func (o *rollout) hasDeadline() bool {
	seconds := o.d.Spec.ProgressDeadlineSeconds
	return seconds != nil && *seconds != math.MaxInt32
}

// deadline returns when a rollout without further progress has timed out.
func (o *rollout) deadline(progressing *appsv1.DeploymentCondition) time.Time {
	return progressing.LastUpdateTime.Add(time.Duration(*o.d.Spec.ProgressDeadlineSeconds) * time.Second)
}

func (o *rollout) isTimedOut(progressing *appsv1.DeploymentCondition) bool {
	switch {
	case progressing == nil || progressing.Reason == reasonAvailable:
		return false
	case progressing.Reason == reasonTimedOut:
		return true
	}
	return o.deadline(progressing).Before(time.Now())
}

// untilDeadline returns the time after which the deadline has to be checked; 0 for never. It is a
// second longer than the deadline, whose start has been rounded to seconds.
func (o *rollout) untilDeadline(now time.Time) time.Duration {
	progressing := condition(&o.d.Status, appsv1.DeploymentProgressing)
	if o.d.DeletionTimestamp != nil || o.d.Spec.Paused || !o.hasDeadline() || progressing == nil ||
		progressing.Reason == reasonTimedOut || o.isComplete(&o.d.Status) {
		return 0
	}
	return max(0, o.deadline(progressing).Sub(now)) + time.Second
}

// failure returns the condition ReplicaFailure of the current set, or else of another one; nil if
// none has it.
func (o *rollout) failure() *appsv1.DeploymentCondition {
	sets := o.old
	if o.current != nil {
		sets = slices.Insert(slices.Clone(o.old), 0, o.current)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
				}
			}
		}
	}
	return nil
}

// notePause keeps the deadline from counting while a Deployment is paused.
func (o *rollout) notePause(ctx context.Context) error {
	if !o.hasDeadline() {
		return nil
	}
	had := condition(&o.d.Status, appsv1.DeploymentProgressing)
	if had != nil && had.Reason == reasonTimedOut {
		return nil
	}
	noted := had != nil && had.Reason == reasonPaused
	if noted == o.d.Spec.Paused {
		return nil
	}
	status := o.d.Status.DeepCopy()
	if o.d.Spec.Paused {
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	} else {
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
	return o.writeStatus(ctx, *status)
}

// condition returns the condition of a type, or nil.
func condition(status *appsv1.DeploymentStatus, of appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}

func newCondition(of appsv1.DeploymentConditionType, is corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	now := metav1.Now()
	return appsv1.DeploymentCondition{Type: of, Status: is, LastUpdateTime: now, LastTransitionTime: now, Reason: reason, Message: message}
}

func setCondition(status *appsv1.DeploymentStatus, of appsv1.DeploymentConditionType, is corev1.ConditionStatus, reason, message string) {
	set(status, newCondition(of, is, reason, message))
}

// set sets a condition, unless it has the same status and reason already. A condition that changes
// moves to the end, as Kubernetes has it.
func set(status *appsv1.DeploymentStatus, next appsv1.DeploymentCondition) {
	if had := condition(status, next.Type); had != nil && had.Status == next.Status {
		if had.Reason == next.Reason {
			return
		}
		next.LastTransitionTime = had.LastTransitionTime
	}
	removeCondition(status, next.Type)
	status.Conditions = append(status.Conditions, next)
}

func removeCondition(status *appsv1.DeploymentStatus, of appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c appsv1.DeploymentCondition) bool { return c.Type == of })
}
