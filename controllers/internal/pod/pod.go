// Package pod contains the functions on pods that built-in controllers share: whether a pod is
// active, ready or available, and the order in which pods are deleted when a set is scaled down. It
// also creates pods from templates.
//
// It starts no goroutine, has no locks, and does not change the pods that it receives.
package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Active reports whether a pod runs or is going to: it has not ended, and is not being deleted.
func Active(p *corev1.Pod) bool { return !Ended(p) && p.DeletionTimestamp == nil }

// Ended reports whether all containers of a pod have ended for good.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Terminating reports whether a pod is being deleted and has not ended.
func Terminating(p *corev1.Pod) bool { return !Ended(p) && p.DeletionTimestamp != nil }

// Condition returns the condition of a type, or nil.
func Condition(p *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}

// Ready reports whether a pod has the condition Ready.
func Ready(p *corev1.Pod) bool {
	c := Condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// readySince returns when a pod became ready; zero if it is not ready, or that is unknown.
func readySince(p *corev1.Pod) time.Time {
	if c := Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// Available reports whether a pod has been ready for minReadySeconds. If it is ready and has to
// stay so for some time until it is available, wait is that time, and 0 otherwise.
func Available(p *corev1.Pod, minReadySeconds int32, now time.Time) (available bool, wait time.Duration) {
	if !Ready(p) {
		return false, 0
	}
	if minReadySeconds == 0 {
		return true, 0
	}
	since := readySince(p)
	if since.IsZero() {
		return false, 0
	}
	if wait = since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}
