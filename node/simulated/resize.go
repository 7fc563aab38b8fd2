package simulated

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
)

// resize gives running containers the resources of their specs (KEP-1287). It takes no time, so the
// condition PodResizeInProgress is never written. Resources that exceed the node are infeasible.
func (l *look) resize() {
	l.status.Conditions = slices.DeleteFunc(slices.Clone(l.status.Conditions), func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	var changed []*container
	for _, c := range slices.Concat(l.inits, l.regular) {
		if c.Status.State.Running != nil && c.Kind != podstatus.Init && c.Status.Resources != nil && !equality.Semantic.DeepEqual(*c.Status.Resources, c.Spec.Resources) {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return
	}
	if message := l.infeasible(); message != "" {
		l.pending(message)
		return
	}
	l.emit(nil, corev1.EventTypeNormal, "ResizeStarted", "Pod resize started: "+l.summary(""))
	for _, c := range changed {
		if c.restartsFor(*c.Status.Resources) && l.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			l.emit(c, corev1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s resize requires restart, will be restarted", c.Spec.Name))
			c.terminate(l.stopEnd(c, false), l.now)
			l.start(c)
		}
		c.Status.AllocatedResources, c.Status.Resources = c.Spec.Resources.Requests, &c.Spec.Resources
	}
	l.emit(nil, corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed: "+l.summary(""))
}

// pending sets the condition of a resize that is not possible.
func (l *look) pending(message string) {
	c := corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: message,
		ObservedGeneration: l.pod.Generation, LastProbeTime: podstatus.Seconds(l.now), LastTransitionTime: podstatus.Seconds(l.now),
	}
	if was := podstatus.Condition(l.old, c.Type); was != nil && was.Reason == c.Reason {
		c.LastProbeTime, c.LastTransitionTime = was.LastProbeTime, was.LastTransitionTime
		if was.ObservedGeneration == c.ObservedGeneration {
			l.status.Conditions = append(l.status.Conditions, c)
			return
		}
	}
	l.status.Conditions = append(l.status.Conditions, c)
	l.emit(nil, corev1.EventTypeWarning, "ResizeInfeasible", "Pod resize Infeasible: "+l.summary(message))
}

// infeasible returns why a node can never have the resources of the pod.
func (l *look) infeasible() string {
	requests := resource.PodRequests(l.pod, resource.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		has, ok := l.node.allocatable[name]
		if wants := requests[name]; ok && wants.Cmp(has) > 0 {
			if name == corev1.ResourceCPU {
				return fmt.Sprintf("Node didn't have enough capacity: cpu, requested: %d, capacity: %d", wants.MilliValue(), has.MilliValue())
			}
			return fmt.Sprintf("Node didn't have enough capacity: memory, requested: %d, capacity: %d", wants.Value(), has.Value())
		}
	}
	return ""
}

// restartsFor reports whether the policies of a container require a restart for the resources that
// differ.
func (c *container) restartsFor(has corev1.ResourceRequirements) bool {
	for _, p := range c.Spec.ResizePolicy {
		if p.RestartPolicy != corev1.RestartContainer {
			continue
		}
		limit, request := c.Spec.Resources.Limits[p.ResourceName], c.Spec.Resources.Requests[p.ResourceName]
		if limit.Cmp(has.Limits[p.ResourceName]) != 0 || request.Cmp(has.Requests[p.ResourceName]) != 0 {
			return true
		}
	}
	return false
}

// summary returns the description of the containers in events about a resize.
func (l *look) summary(problem string) string {
	type allocation struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var s struct {
		InitContainers []allocation `json:"initContainers,omitempty"`
		Containers     []allocation `json:"containers,omitempty"`
		Generation     int64        `json:"generation"`
		Error          string       `json:"error,omitempty"`
	}
	for _, c := range l.inits {
		s.InitContainers = append(s.InitContainers, allocation{c.Spec.Name, c.Spec.Resources})
	}
	for _, c := range l.regular {
		s.Containers = append(s.Containers, allocation{c.Spec.Name, c.Spec.Resources})
	}
	s.Generation, s.Error = l.pod.Generation, problem
	text, _ := json.Marshal(s)
	return string(text)
}

// resources sets the resources of the pod as a whole.
func (l *look) resources() {
	if podstatus.Ended(l.status.Phase) {
		return
	}
	o := resource.PodResourcesOptions{}
	requests, limits := resource.PodRequests(l.pod, o), resource.PodLimits(l.pod, o)
	if podstatus.Condition(&l.status, corev1.PodResizePending) != nil {
		return // the pod has what it had
	}
	l.status.AllocatedResources, l.status.Resources = nil, nil
	if len(requests) > 0 {
		l.status.AllocatedResources = requests
	}
	if len(requests) > 0 || len(limits) > 0 {
		l.status.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
}
