// Package podstatus computes the parts of a pod's status that follow from those of its containers,
// as the kubelet does: phase, conditions, and the patch that writes them.
//
// All functions are pure: they start no goroutine, and read no clock.
package podstatus

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Kind determines when a container starts, and whether it is restarted.
type Kind int

const (
	Init      Kind = iota // runs to its end before the next one starts
	Sidecar               // an init container that runs as long as the pod
	Regular               // one of spec.containers
	Ephemeral             // a container for debugging, which is never started again
)

// KindOf returns the kind of a container of spec.initContainers.
func KindOf(c *corev1.Container) Kind {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return Sidecar
	}
	return Init
}

// A Container is one of a pod, with its new status.
type Container struct {
	Spec   *corev1.Container
	Kind   Kind
	Status *corev1.ContainerStatus
	// Starting says that a sidecar runs whose startup probe has not succeeded.
	Starting bool
}

// HasStarted reports whether the container has been started at any time.
func (c *Container) HasStarted() bool {
	return c.Status.State.Running != nil || c.Status.State.Terminated != nil || c.Status.LastTerminationState.Terminated != nil
}

// LastEnd returns how the container has ended last, nil if it has not.
func (c *Container) LastEnd() *corev1.ContainerStateTerminated {
	if t := c.Status.State.Terminated; t != nil {
		return t
	}
	return c.Status.LastTerminationState.Terminated
}

// MayRestart reports whether a container that has ended is to be started again, in a pod with a
// restart policy.
func (c *Container) MayRestart(policy corev1.RestartPolicy) bool {
	code := c.LastEnd().ExitCode
	switch {
	case c.Kind == Ephemeral, c.Kind == Init && code == 0:
		return false
	case c.Kind == Sidecar:
		return true
	}
	return Restarts(c.Spec, policy, code)
}

// Restarts reports whether a container that ended with an exit code is started again: by its rules,
// its own policy, or that of the pod.
func Restarts(c *corev1.Container, policy corev1.RestartPolicy, code int32) bool {
	if c.RestartPolicy != nil {
		for _, rule := range c.RestartPolicyRules {
			if rule.ExitCodes == nil {
				continue
			}
			if slices.Contains(rule.ExitCodes.Values, code) == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true // the actions Restart and RestartAllContainers
			}
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// WillRestart is the end of the message about a container that is killed.
func (c *Container) WillRestart(policy corev1.RestartPolicy) string {
	if c.Kind != Sidecar && policy == corev1.RestartPolicyNever && c.Spec.RestartPolicy == nil {
		return ""
	}
	return ", will be restarted"
}

// Wait sets the state of a container that waits, and reports whether that is a change.
func (c *Container) Wait(reason, message string) bool {
	s := c.Status
	if w := s.State.Waiting; w != nil && w.Reason == reason && w.Message == message {
		return false
	}
	if s.State.Terminated != nil {
		s.LastTerminationState = corev1.ContainerState{Terminated: s.State.Terminated}
	}
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	return true
}

// Waiting returns the status of a container that has not been started.
func Waiting(pod *corev1.Pod, spec *corev1.Container) corev1.ContainerStatus {
	reason := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	s := corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
	for i := range spec.VolumeMounts {
		m := &spec.VolumeMounts[i]
		mounted := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mounted.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
			if r := m.RecursiveReadOnly; r != nil && *r != corev1.RecursiveReadOnlyDisabled {
				mounted.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
			}
		}
		s.VolumeMounts = append(s.VolumeMounts, mounted)
	}
	return s
}

// A Pod is a pod whose new status is computed.
type Pod struct {
	Pod    *corev1.Pod       // is not changed
	Old    *corev1.PodStatus // the status that was written last
	Status *corev1.PodStatus // the new status
	// The containers in the order of the spec. Their statuses are not yet those of Status.
	Inits, Regular, Ephemeral []*Container
	Sandbox                   bool // the pod has its network
	Now                       time.Time
}

// All returns the containers in the order in which they start.
func (p *Pod) All() []*Container { return slices.Concat(p.Inits, p.Regular, p.Ephemeral) }

// Ended reports whether a phase is final.
func Ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// Sorted sorts statuses as a kubelet does.
func Sorted(s []corev1.ContainerStatus) []corev1.ContainerStatus {
	slices.SortFunc(s, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// Seconds returns a time as it is written.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// Condition returns a condition of a status, nil if it has none of the type.
func Condition(s *corev1.PodStatus, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == of {
			return &s.Conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether a status has a condition that is true.
func IsTrue(s *corev1.PodStatus, of corev1.PodConditionType) bool {
	c := Condition(s, of)
	return c != nil && c.Status == corev1.ConditionTrue
}
