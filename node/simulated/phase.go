package simulated

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// phase computes the phase. A pod whose work is over keeps its phase until all containers have
// stopped.
func (l *look) phase() {
	if !l.over() {
		l.setPhase(l.computePhase(false))
		return
	}
	var since time.Time
	for _, c := range l.all() {
		if t := c.status.State.Terminated; t != nil && c.kind != sidecar {
			since = latest(since, t.FinishedAt.Time)
		}
	}
	if l.stop(since, l.grace(), tellAtEnd) {
		l.sandbox = false
		l.setPhase(l.computePhase(false))
	}
}

// over reports whether no container but sidecars runs or is started again, or the pod cannot be
// initialized.
func (l *look) over() bool {
	forGood := func(c *container) bool {
		t := c.status.State.Terminated
		return t != nil && !restarts(c.spec, l.pod.Spec.RestartPolicy, t.ExitCode)
	}
	for _, c := range l.inits {
		if c.kind == initContainer && c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode != 0 && forGood(c) {
			return true
		}
	}
	for _, c := range l.regular {
		if !forGood(c) {
			return false
		}
	}
	return true
}

// setPhase sets the phase. Reason and message belong to the one before.
func (l *look) setPhase(phase corev1.PodPhase) {
	if l.status.Phase != phase {
		l.status.Phase, l.status.Reason, l.status.Message = phase, "", ""
	}
}

// A tally counts the containers in the states that decide the phase, as getPhase of a kubelet does.
type tally struct {
	initializing, startingSidecars      int
	initFailed                          bool // and is not started again
	running, waiting                    int
	stopped, stoppedForGood, successful int
}

// computePhase returns the phase that follows from the containers. In a pod that is terminal none is
// started again.
func (l *look) computePhase(terminal bool) corev1.PodPhase {
	var n tally
	started := false
	for _, c := range l.inits {
		l.countInit(&n, c)
	}
	for _, c := range l.regular {
		l.countRegular(&n, c)
		started = started || c.hasStarted()
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

func (l *look) countInit(n *tally, c *container) {
	s, end := c.status, c.lastEnd()
	switch {
	case c.kind == sidecar && s.State.Running != nil:
		n.running++
		if started, _ := l.probes(c).at(l.now); !started {
			n.startingSidecars++
		}
	case c.kind == sidecar && end == nil:
		n.startingSidecars++
		n.waiting++
	case c.kind == sidecar:
	case s.State.Running != nil, end == nil:
		n.initializing++
	case end.ExitCode != 0 && !restarts(c.spec, l.pod.Spec.RestartPolicy, end.ExitCode):
		n.initFailed = true
	}
}

func (l *look) countRegular(n *tally, c *container) {
	end := c.lastEnd()
	switch {
	case c.status.State.Running != nil:
		n.running++
	case end == nil:
		n.waiting++
	default:
		n.stopped++
		if !restarts(c.spec, l.pod.Spec.RestartPolicy, end.ExitCode) {
			n.stoppedForGood++
		}
		if c.status.State.Terminated != nil && end.ExitCode == 0 {
			n.successful++
		}
	}
}
