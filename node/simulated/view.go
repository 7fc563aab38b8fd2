package simulated

import (
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
)

// view returns the pod with the containers as they are now. What it sets belongs to the look.
func (l *look) view() *podstatus.Pod {
	parts := func(all []*container) []*podstatus.Container {
		list := make([]*podstatus.Container, len(all))
		for i, c := range all {
			list[i] = &c.Container
		}
		return list
	}
	for _, c := range l.inits {
		c.Starting = false
		if c.Kind == podstatus.Sidecar && c.Status.State.Running != nil {
			started, _ := l.probes(c).at(l.now)
			c.Starting = !started
		}
	}
	return &podstatus.Pod{
		Pod: l.pod, Old: l.old, Status: &l.status, Now: l.now, Sandbox: l.sandbox,
		Inits: parts(l.inits), Regular: parts(l.regular), Ephemeral: parts(l.ephemeral),
	}
}

// phase computes the phase. A pod whose work is over keeps its phase until all containers have
// stopped.
func (l *look) phase() {
	now := l.view()
	if !now.Over() {
		now.SetPhase(now.ComputePhase(false))
		return
	}
	var since time.Time
	for _, c := range l.all() {
		if t := c.Status.State.Terminated; t != nil && c.Kind != podstatus.Sidecar {
			since = latest(since, t.FinishedAt.Time)
		}
	}
	if l.stop(since, l.grace(), tellAtEnd) {
		l.sandbox = false
		now.SetPhase(now.ComputePhase(false))
	}
}

// conclude gives a pod whose containers have all stopped its last phase; "" is the one that follows
// from their ends.
func (l *look) conclude(phase corev1.PodPhase) {
	l.sandbox = false
	l.view().Conclude(phase)
}
