package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Over reports whether no container but sidecars runs or is started again, or the pod cannot be
// initialized.
func (p *Pod) Over() bool {
	forGood := func(c *Container) bool {
		t := c.Status.State.Terminated
		return t != nil && !Restarts(c.Spec, p.Pod.Spec.RestartPolicy, t.ExitCode)
	}
	for _, c := range p.Inits {
		if c.Kind == Init && c.Status.State.Terminated != nil && c.Status.State.Terminated.ExitCode != 0 && forGood(c) {
			return true
		}
	}
	for _, c := range p.Regular {
		if !forGood(c) {
			return false
		}
	}
	return true
}

// SetPhase sets the phase. Reason and message belong to the one before.
func (p *Pod) SetPhase(phase corev1.PodPhase) {
	if p.Status.Phase != phase {
		p.Status.Phase, p.Status.Reason, p.Status.Message = phase, "", ""
	}
}

// A tally counts the containers in the states that decide the phase, as getPhase of a kubelet does.
type tally struct {
	initializing, startingSidecars      int
	initFailed                          bool // and is not started again
	running, waiting                    int
	stopped, stoppedForGood, successful int
}

// ComputePhase returns the phase that follows from the containers. In a pod that is terminal none
// is started again.
func (p *Pod) ComputePhase(terminal bool) corev1.PodPhase {
	var n tally
	started := false
	for _, c := range p.Inits {
		p.countInit(&n, c)
	}
	for _, c := range p.Regular {
		p.countRegular(&n, c)
		started = started || c.HasStarted()
	}
	switch {
	case n.initFailed:
		return corev1.PodFailed
	case n.initializing > 0, n.startingSidecars > 0 && !started, n.waiting > 0:
		return corev1.PodPending
	case n.running > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	case !terminal && n.stopped != n.stoppedForGood:
		return corev1.PodRunning
	case n.stopped == n.successful:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

func (p *Pod) countInit(n *tally, c *Container) {
	s, end := c.Status, c.LastEnd()
	switch {
	case c.Kind == Sidecar && s.State.Running != nil:
		n.running++
		if c.Starting {
			n.startingSidecars++
		}
	case c.Kind == Sidecar && end == nil:
		n.startingSidecars++
		n.waiting++
	case c.Kind == Sidecar:
	case s.State.Running != nil, end == nil:
		n.initializing++
	case end.ExitCode != 0 && !Restarts(c.Spec, p.Pod.Spec.RestartPolicy, end.ExitCode):
		n.initFailed = true
	}
}

func (p *Pod) countRegular(n *tally, c *Container) {
	end := c.LastEnd()
	switch {
	case c.Status.State.Running != nil:
		n.running++
	case end == nil:
		n.waiting++
	default:
		n.stopped++
		if !Restarts(c.Spec, p.Pod.Spec.RestartPolicy, end.ExitCode) {
			n.stoppedForGood++
		}
		if c.Status.State.Terminated != nil && end.ExitCode == 0 {
			n.successful++
		}
	}
}

// Conclude gives a pod whose containers have all stopped its last phase; "" is the one that follows
// from their ends.
func (p *Pod) Conclude(phase corev1.PodPhase) {
	p.Sandbox = false
	if phase == "" {
		phase = p.ComputePhase(true)
	}
	lost := func(c *Container) {
		if c.Status.State.Terminated == nil {
			c.Status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
			}}
		}
	}
	if p.wasInitialized() {
		for _, c := range p.Regular {
			lost(c)
		}
	}
	begun := len(p.Inits)
	for begun > 1 && !p.Inits[begun-1].HasStarted() {
		begun--
	}
	for _, c := range p.Inits[:begun] {
		lost(c)
	}
	if !Ended(phase) {
		phase = corev1.PodFailed
	}
	p.SetPhase(phase)
}

// wasInitialized reports whether the init containers have done their work.
func (p *Pod) wasInitialized() bool {
	if len(p.Inits) == 0 || slices.ContainsFunc(p.Regular, (*Container).HasStarted) {
		return true
	}
	last := p.Inits[len(p.Inits)-1]
	end := last.LastEnd()
	return last.Kind == Init && end != nil && end.ExitCode == 0
}
