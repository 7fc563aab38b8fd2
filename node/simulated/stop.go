package simulated

import (
	"slices"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
)

const (
	deadlineReason  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

// overdue reports whether a pod has been active for too long.
func (l *look) overdue() bool {
	seconds := l.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return false
	}
	if end := l.deadline(); l.now.Before(end) {
		l.later(end)
		return false
	}
	return true
}

func (l *look) deadline() time.Time {
	return l.status.StartTime.Add(time.Duration(*l.pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// stopOverdue stops a pod that has been active for too long.
func (l *look) stopOverdue() {
	if !l.stop(l.deadline(), l.grace(), tellAtEnd) {
		return
	}
	l.emit(nil, corev1.EventTypeNormal, deadlineReason, deadlineMessage)
	l.conclude(corev1.PodFailed)
	l.status.Reason, l.status.Message = deadlineReason, deadlineMessage
}

// grace returns the grace period of the pod.
func (l *look) grace() time.Duration {
	s := l.pod.DeletionGracePeriodSeconds
	if s == nil {
		s = l.pod.Spec.TerminationGracePeriodSeconds
	}
	if s == nil {
		return 30 * time.Second
	}
	return time.Duration(*s) * time.Second
}

// deleting stops a pod that is being deleted, and lets it be deleted when it has stopped.
func (l *look) deleting() outcome {
	since := l.pod.DeletionTimestamp.Add(-l.grace())
	tell := tellNow
	if l.old.ObservedGeneration >= l.pod.Generation {
		tell = told // the deletion is a generation of its own, and was seen before
	}
	done := l.stop(since, l.grace(), tell)
	if done {
		l.conclude("")
	}
	o := l.outcome()
	o.gone = done
	return o
}

// ended stops the containers of a pod whose phase another client has set to a final one.
func (l *look) ended() outcome {
	running := false
	for _, c := range l.all() {
		if c.Status.State.Running != nil {
			running = true
			l.emit(c, corev1.EventTypeNormal, "Killing", "Stopping container "+c.Spec.Name)
			c.terminate(l.stopEnd(c, true), l.now)
		}
	}
	if !running {
		return outcome{status: l.pod.Status, gone: l.pod.DeletionTimestamp != nil}
	}
	l.sandbox = false
	o := l.outcome()
	o.next, o.gone = time.Time{}, l.pod.DeletionTimestamp != nil
	return o
}

// A telling selects when the events about stopping containers are sent.
type telling int

const (
	tellNow   telling = iota // when they begin to stop
	tellAtEnd                // when they have stopped, because the status does not show that they stop
	told                     // they have been sent
)

// stop stops all containers, from a time on and within a grace period, and reports whether all have
// stopped. Sidecars stop after all others, in reverse order (KEP-753).
func (l *look) stop(since time.Time, grace time.Duration, tell telling) (done bool) {
	done = true
	last := since
	for _, c := range slices.Concat(l.regular, l.ephemeral, l.inits) {
		if c.Kind == podstatus.Sidecar {
			continue
		}
		at, stopped := l.stopOne(c, since, since, grace, tell)
		last, done = latest(last, at), done && stopped
	}
	for _, c := range slices.Backward(l.inits) {
		if c.Kind != podstatus.Sidecar {
			continue
		}
		at, stopped := l.stopOne(c, since, last, grace, tell)
		last, done = latest(last, at), done && stopped
	}
	return done
}

// stopOne stops a container whose turn comes at some time, and returns when it has stopped or will.
func (l *look) stopOne(c *container, since, turn time.Time, grace time.Duration, tell telling) (at time.Time, stopped bool) {
	if c.Status.State.Running == nil {
		if t := c.Status.State.Terminated; t != nil {
			return t.FinishedAt.Time, true
		}
		return time.Time{}, true
	}
	limit := since.Add(max(grace, minGrace))
	took, killed := l.stopTime(c, max(0, limit.Sub(turn)))
	at = turn.Add(took)
	end := l.stopEnd(c, killed)
	if by, own := l.endOf(c); own != nil && by.Before(at) {
		at, end = by, own
	}
	now := !l.now.Before(at)
	if tell == tellNow || tell == tellAtEnd && now {
		l.emit(c, corev1.EventTypeNormal, "Killing", "Stopping container "+c.Spec.Name)
	}
	if !now {
		l.later(at)
		return at, false
	}
	c.terminate(end, at)
	return c.Status.State.Terminated.FinishedAt.Time, true
}

// stopTime returns how long it takes a container to stop, and whether it has to be killed after
// that time.
func (l *look) stopTime(c *container, grace time.Duration) (took time.Duration, killed bool) {
	if hooks := c.Spec.Lifecycle; hooks != nil && hooks.PreStop != nil && hooks.PreStop.Sleep != nil {
		took = time.Duration(hooks.PreStop.Sleep.Seconds) * time.Second
	}
	if took += c.does.Stop.orZero(); took > grace {
		return grace, true
	}
	return took, false
}

// stopEnd returns how a container ends that stops after the signal TERM: a service succeeds, and
// work that is not complete fails.
func (l *look) stopEnd(c *container, killed bool) *corev1.ContainerStateTerminated {
	switch {
	case killed:
		return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
	case c.Kind == podstatus.Init, c.Kind == podstatus.Regular && l.simulation.completes:
		return &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"}
	}
	return &corev1.ContainerStateTerminated{Reason: "Completed"}
}
