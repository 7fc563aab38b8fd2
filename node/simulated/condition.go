package simulated

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// byKubelet reports whether a condition is one that a kubelet sets.
func byKubelet(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
		corev1.PodResizeInProgress, corev1.PodResizePending:
		return true
	}
	return false
}

// conditions sets the conditions of a kubelet, in its order, after those of others.
func (l *look) conditions() {
	var all []corev1.PodCondition
	for _, c := range l.old.Conditions {
		if !byKubelet(c.Type) {
			all = append(all, c)
		}
	}
	if pending := condition(&l.status, corev1.PodResizePending); pending != nil && !ended(l.status.Phase) {
		all = append(all, *pending)
	}
	ready, containersReady := l.podReady(), l.containersReady()
	for _, c := range []corev1.PodCondition{l.readyToStart(), l.initializedCondition(), ready, containersReady, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}} {
		c.ObservedGeneration = l.pod.Generation
		c.LastTransitionTime = seconds(l.now)
		if was := condition(l.old, c.Type); was != nil {
			if was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
			c.ObservedGeneration = max(c.ObservedGeneration, was.ObservedGeneration)
		}
		all = append(all, c)
	}
	l.status.Conditions = all
}

func (l *look) readyToStart() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if l.sandbox {
		return c
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PodSandboxNotReady", "pod sandbox is not ready"
	if l.status.PodIP == "" {
		c.Message = "no pod sandbox exists"
	}
	return c
}

func (l *look) initializedCondition() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var incomplete []string
	begun := false
	for _, r := range l.regular {
		begun = begun || r.hasStarted()
	}
	for _, i := range l.inits {
		if ok := i.status.Ready; i.kind == sidecar && (i.status.Started == nil || !*i.status.Started) || i.kind == initContainer && !ok {
			incomplete = append(incomplete, i.spec.Name)
		}
	}
	switch {
	case l.status.Phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case len(incomplete) > 0 && !begun:
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func (l *look) containersReady() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var unready []string
	for _, i := range l.inits {
		if i.kind == sidecar && !i.status.Ready {
			unready = append(unready, i.spec.Name)
		}
	}
	for _, r := range l.regular {
		if !r.status.Ready {
			unready = append(unready, r.spec.Name)
		}
	}
	switch {
	case l.status.Phase == corev1.PodSucceeded:
		c.Status, c.Reason = corev1.ConditionFalse, "PodCompleted"
	case l.status.Phase == corev1.PodFailed:
		c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
	case len(unready) > 0:
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	return c
}

func (l *look) podReady() corev1.PodCondition {
	c := l.containersReady()
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var messages []string
	for _, gate := range l.pod.Spec.ReadinessGates {
		switch is := condition(l.old, gate.ConditionType); {
		case is == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case is.Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), is.Status))
		}
	}
	if len(messages) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(messages, ", ")
	}
	return c
}
