package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
)

// A container is one of a pod in a look.
type container struct {
	podstatus.Container
	does  behaviour
	fresh bool // it was started in this look
}

// The backoff of a container that exits repeatedly.
const (
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute
	// stable is the time of a run after which the back-off begins again.
	stable = 2 * maxBackoff
	// minGrace is the time that a container has at least between the signals TERM and KILL.
	minGrace = 2 * time.Second
)

// containers returns the containers of specs with copies of their statuses; one without a status
// waits.
func (l *look) containers(specs []corev1.Container, old []corev1.ContainerStatus, kind podstatus.Kind) []*container {
	if len(specs) == 0 {
		return nil
	}
	all, made := make([]*container, len(specs)), make([]container, len(specs))
	written := make([]corev1.ContainerStatus, len(specs))
	for i := range specs {
		c := &made[i]
		c.Spec, c.Kind, c.Status = &specs[i], kind, &written[i]
		if kind == podstatus.Init {
			c.Kind = podstatus.KindOf(c.Spec)
		}
		c.does = l.simulation.of(c.Spec.Name)
		if j := slices.IndexFunc(old, func(s corev1.ContainerStatus) bool { return s.Name == c.Spec.Name }); j >= 0 {
			written[i] = old[j]
		} else {
			written[i] = podstatus.Waiting(l.pod, c.Spec)
		}
		all[i] = c
	}
	return all
}

func statuses(all []*container) []corev1.ContainerStatus {
	if len(all) == 0 {
		return nil
	}
	s := make([]corev1.ContainerStatus, len(all))
	for i, c := range all {
		s[i] = *c.Status
	}
	return s
}

// firstStart returns the earliest start of the container that its status knows; zero if there is
// none.
func (c *container) firstStart() time.Time {
	s := c.Status
	switch {
	case s.LastTerminationState.Terminated != nil:
		return s.LastTerminationState.Terminated.StartedAt.Time
	case s.State.Terminated != nil:
		return s.State.Terminated.StartedAt.Time
	case s.State.Running != nil:
		return s.State.Running.StartedAt.Time
	}
	return time.Time{}
}

// drive brings a container as far as it gets now. A container that ends at once ends at its second
// start in a back-off.
func (l *look) drive(c *container, t *turn) {
	for {
		switch s := c.Status; {
		case s.State.Running != nil:
			if !l.exit(c) {
				return
			}
		case !c.HasStarted():
			if !l.ready(c, t) {
				return
			}
			l.start(c)
		default:
			if !c.MayRestart(l.pod.Spec.RestartPolicy) || !l.backedOff(c) || !l.configured(c) {
				return
			}
			l.start(c)
		}
	}
}

// start starts a container, for the first time or again.
func (l *look) start(c *container) {
	s := c.Status
	if s.State.Terminated != nil {
		s.LastTerminationState = corev1.ContainerState{Terminated: s.State.Terminated}
	}
	if s.LastTerminationState.Terminated != nil {
		s.RestartCount++
	}
	c.fresh = true
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: podstatus.Seconds(l.now)}}
	s.Image, s.ImageID = imageName(c.Spec.Image), imageID(c.Spec.Image)
	s.ContainerID = containerID(l.pod, c.Spec.Name, s.RestartCount)
	s.AllocatedResources, s.Resources = c.Spec.Resources.Requests, &c.Spec.Resources
	l.emitPulled(c)
	l.emit(c, corev1.EventTypeNormal, "Created", "Container created")
	l.emit(c, corev1.EventTypeNormal, "Started", "Container started")
}

// exit ends a running container if its time has come, and reports whether it has.
func (l *look) exit(c *container) bool {
	running := c.Status.State.Running
	if running == nil {
		return false
	}
	at, end := l.endOf(c)
	if kill := l.probes(c).kill; kill.why != "" && (end == nil || kill.at.Before(at)) {
		stop, killed := l.stopTime(c, l.graceOf(kill.probe))
		at, end = kill.at.Add(stop), l.stopEnd(c, killed)
		if !l.now.Before(at) {
			l.emit(c, corev1.EventTypeWarning, "Unhealthy", kill.failure)
			l.emit(c, corev1.EventTypeNormal, "Killing", kill.why+c.WillRestart(l.pod.Spec.RestartPolicy))
		}
	}
	if end == nil {
		return false
	}
	if l.now.Before(at) {
		l.later(at)
		return false
	}
	c.terminate(end, at)
	return true
}

// redefine restarts a running container whose image has changed, whatever its restart policy is.
func (l *look) redefine(c *container) {
	s := c.Status
	if s.State.Running == nil || c.Kind == podstatus.Ephemeral || c.Kind == podstatus.Init || s.Image == imageName(c.Spec.Image) {
		return
	}
	word := "Container"
	if c.Kind == podstatus.Sidecar {
		word = "Init container"
	}
	l.emit(c, corev1.EventTypeNormal, "Killing", fmt.Sprintf("%s %s definition changed, will be restarted", word, s.Name))
	c.terminate(l.stopEnd(c, false), l.now)
	l.start(c)
}

// endOf returns when and how a running container exits without a signal; nil if it does not.
func (l *look) endOf(c *container) (time.Time, *corev1.ContainerStateTerminated) {
	run, ends := l.simulation.run(c, c.Status.RestartCount)
	if !ends {
		return time.Time{}, nil
	}
	return c.Status.State.Running.StartedAt.Add(run.after), &corev1.ContainerStateTerminated{
		ExitCode: run.exit, Reason: run.reason, Message: run.message,
	}
}

// terminate sets the state of a container that has ended, not before its start.
func (c *container) terminate(end *corev1.ContainerStateTerminated, at time.Time) {
	end.StartedAt = c.Status.State.Running.StartedAt
	end.FinishedAt = podstatus.Seconds(at)
	if end.FinishedAt.Before(&end.StartedAt) {
		end.FinishedAt = end.StartedAt
	}
	end.ContainerID = c.Status.ContainerID
	c.Status.State = corev1.ContainerState{Terminated: end}
}

// backedOff reports whether the back-off of a container that has ended is over. A kubelet keeps
// back-offs in memory; here they follow from the status: the last one is the time between the end
// of the run before and the start of the one that has ended.
func (l *look) backedOff(c *container) bool {
	s := c.Status
	end := c.LastEnd()
	wait := l.backoff(c)
	if until := end.FinishedAt.Add(wait); l.now.Before(until) {
		l.later(until)
		if s.State.Terminated != nil {
			s.LastTerminationState = corev1.ContainerState{Terminated: s.State.Terminated}
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason:  "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", wait, s.Name, podName(l.pod)),
			}}
			l.emit(c, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", s.Name, podName(l.pod)))
		}
		return false
	}
	return true
}

func (l *look) backoff(c *container) time.Duration {
	s := c.Status
	if w := s.State.Waiting; w != nil {
		text, _, _ := strings.Cut(strings.TrimPrefix(w.Message, "back-off "), " ")
		if wait, err := time.ParseDuration(text); err == nil && w.Reason == "CrashLoopBackOff" {
			return wait
		}
		return 0 // it has waited
	}
	end, before := s.State.Terminated, s.LastTerminationState.Terminated
	if before == nil || end.FinishedAt.Sub(end.StartedAt.Time) > stable {
		return 0
	}
	wait := minBackoff
	for waited := end.StartedAt.Sub(before.FinishedAt.Time); wait <= waited && wait < maxBackoff; {
		wait = min(2*wait, maxBackoff)
	}
	return wait
}

// podName is a pod in the messages of a kubelet.
func podName(p *corev1.Pod) string { return fmt.Sprintf("%s_%s(%s)", p.Name, p.Namespace, p.UID) }

// graceOf returns the grace period of a container that a probe has killed.
func (l *look) graceOf(p *corev1.Probe) time.Duration {
	grace := cmp.Or(l.pod.Spec.TerminationGracePeriodSeconds, new(int64(minGrace/time.Second)))
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		grace = p.TerminationGracePeriodSeconds
	}
	return time.Duration(*grace) * time.Second
}
