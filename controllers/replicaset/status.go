package replicaset

import (
	"slices"
	"time"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// next returns the status of a set with these pods, and the time after which a pod becomes
// available without an event: 0 if there is none. failed is why pods could not be created or
// deleted, or nil.
func (s *set) next(active, terminating []*corev1.Pod, failed error, now time.Time) (status appsv1.ReplicaSetStatus, wait time.Duration) {
	status = s.status
	status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = int32(len(active)), 0, 0, 0
	ofTemplate := labels.Set(s.template.Labels).AsSelectorPreValidated()
	for _, p := range active {
		if ofTemplate.Matches(labels.Set(p.Labels)) {
			status.FullyLabeledReplicas++
		}
		if !pod.Ready(p) {
			continue
		}
		status.ReadyReplicas++
		available, after := pod.Available(p, s.minReadySeconds, now)
		if available {
			status.AvailableReplicas++
		}
		if after > 0 && (wait == 0 || after < wait) {
			wait = after
		}
	}
	if status.TerminatingReplicas = nil; s.countsTerminating {
		status.TerminatingReplicas = new(int32(len(terminating)))
	}
	status.Conditions = s.conditions(len(active), failed, now)
	return status, wait
}

// conditions returns the conditions with ReplicaFailure set or removed. One that is set is kept as
// it is.
func (s *set) conditions(active int, failed error, now time.Time) []appsv1.ReplicaSetCondition {
	is := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	had := slices.ContainsFunc(s.status.Conditions, is)
	switch {
	case failed != nil && !had:
		return append(slices.Clip(s.status.Conditions), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
			Reason: reasonFor(s.replicas, active), Message: failed.Error(),
		})
	case failed == nil && had:
		return slices.DeleteFunc(slices.Clone(s.status.Conditions), is)
	}
	return s.status.Conditions
}

// reasonFor returns the reason for a failed action.
func reasonFor(replicas int32, active int) string {
	switch {
	case active < int(replicas):
		return "FailedCreate"
	case active > int(replicas):
		return "FailedDelete"
	}
	return ""
}

// hasStatus reports whether the set has a status already, as of its present generation.
func (s *set) hasStatus(status appsv1.ReplicaSetStatus) bool {
	status.ObservedGeneration = s.object.GetGeneration()
	return equality.Semantic.DeepEqual(s.status, status)
}
