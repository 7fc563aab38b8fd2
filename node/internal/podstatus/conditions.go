package podstatus

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

// SetConditions sets the conditions of a kubelet, in its order, after those of others.
func (p *Pod) SetConditions() {
	var all []corev1.PodCondition
	for _, c := range p.Old.Conditions {
		if !byKubelet(c.Type) {
			all = append(all, c)
		}
	}
	if pending := Condition(p.Status, corev1.PodResizePending); pending != nil && !Ended(p.Status.Phase) {
		all = append(all, *pending)
	}
	ready, containersReady := p.podReady(), p.containersReady()
	for _, c := range []corev1.PodCondition{p.readyToStart(), p.initializedCondition(), ready, containersReady, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}} {
		c.ObservedGeneration = p.Pod.Generation
		c.LastTransitionTime = Seconds(p.Now)
		if was := Condition(p.Old, c.Type); was != nil {
			if was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
			c.ObservedGeneration = max(c.ObservedGeneration, was.ObservedGeneration)
		}
		all = append(all, c)
	}
	p.Status.Conditions = all
}

func (p *Pod) readyToStart() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if p.Sandbox {
		return c
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PodSandboxNotReady", "pod sandbox is not ready"
	if p.Status.PodIP == "" {
		c.Message = "no pod sandbox exists"
	}
	return c
}

func (p *Pod) initializedCondition() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var incomplete []string
	begun := false
	for _, r := range p.Regular {
		begun = begun || r.HasStarted()
	}
	for _, i := range p.Inits {
		if ok := i.Status.Ready; i.Kind == Sidecar && (i.Status.Started == nil || !*i.Status.Started) || i.Kind == Init && !ok {
			incomplete = append(incomplete, i.Spec.Name)
		}
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case len(incomplete) > 0 && !begun:
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func (p *Pod) containersReady() corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var unready []string
	for _, i := range p.Inits {
		if i.Kind == Sidecar && !i.Status.Ready {
			unready = append(unready, i.Spec.Name)
		}
	}
	for _, r := range p.Regular {
		if !r.Status.Ready {
			unready = append(unready, r.Spec.Name)
		}
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		c.Status, c.Reason = corev1.ConditionFalse, "PodCompleted"
	case p.Status.Phase == corev1.PodFailed:
		c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
	case len(unready) > 0:
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	return c
}

func (p *Pod) podReady() corev1.PodCondition {
	c := p.containersReady()
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var messages []string
	for _, gate := range p.Pod.Spec.ReadinessGates {
		switch is := Condition(p.Old, gate.ConditionType); {
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
