package simulated

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
)

// probes are the results of the probes of a running container. A zero time means never.
//
// A kubelet runs a probe at the start of the container, or when it has started by its startup
// probe, and once in each period from then on. Until the initial delay is over it does not count.
type probes struct {
	started time.Time // the startup probe has succeeded
	ready   time.Time // the readiness probe has succeeded
	unready time.Time // the readiness probe has failed later
	kill    kill
}

// A kill is the end of a container by a probe.
type kill struct {
	at      time.Time
	why     string // "" is no kill
	failure string // the message about the probe
	probe   *corev1.Probe
}

// at returns whether the container has started and is ready at a time.
func (p probes) at(now time.Time) (started, ready bool) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	return reached(p.started), reached(p.started) && reached(p.ready) && !reached(p.unready)
}

// probe sets started and ready of a container's status.
func (l *look) probe(c *container) {
	s := c.Status
	if c.Kind == podstatus.Ephemeral {
		s.Ready = false
		return
	}
	started, ready := false, false
	if s.State.Running != nil {
		p := l.probes(c)
		started, ready = p.at(l.now)
		for _, t := range []time.Time{p.started, p.ready, p.unready, p.kill.at} {
			if l.now.Before(t) {
				l.later(t)
			}
		}
		if probe := c.Spec.ReadinessProbe; probe != nil && c.fresh && started && !ready && probe.InitialDelaySeconds == 0 {
			l.emit(c, corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+failureOf(probe))
		}
	}
	if c.Kind == podstatus.Init {
		ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	if s.Started == nil || *s.Started != started {
		s.Started = &started
	}
	s.Ready = ready
}

// probes computes the results of the probes of a running container.
func (l *look) probes(c *container) (p probes) {
	start := c.Status.State.Running.StartedAt.Time
	responds := start.Add(c.does.Ready.orZero()) // zero: never
	if isSet(c.does.Unready) {
		responds = time.Time{}
	}
	p.started = start
	if probe := c.Spec.StartupProbe; probe != nil {
		ok, failed := outcomes(probe, start, start, responds)
		if ok.IsZero() || failed.Before(ok) {
			word := "Container"
			if c.Kind != podstatus.Regular {
				word = "Init container"
			}
			p.kill = kill{failed, fmt.Sprintf("%s %s failed startup probe", word, c.Spec.Name), "Startup probe failed: " + failureOf(probe), probe}
			p.started = time.Time{}
			return p
		}
		p.started = ok
	}
	p.ready = responds
	if probe := c.Spec.ReadinessProbe; probe != nil && !responds.IsZero() {
		ok, _ := outcomes(probe, start, p.started, responds)
		p.ready = ok.Add(time.Duration(max(1, probe.SuccessThreshold)-1) * period(probe))
	}
	if c.does.Unhealthy == nil {
		return p
	}
	fails := start.Add(c.does.Unhealthy.orZero())
	if probe := c.Spec.ReadinessProbe; probe != nil {
		p.unready = failure(probe, start, p.started, fails)
	}
	if probe := c.Spec.LivenessProbe; probe != nil {
		word := "Container"
		if c.Kind != podstatus.Regular {
			word = "Init container"
		}
		p.kill = kill{failure(probe, start, p.started, fails), fmt.Sprintf("%s %s failed liveness probe", word, c.Spec.Name), "Liveness probe failed: " + failureOf(probe), probe}
	}
	return p
}

func period(p *corev1.Probe) time.Duration {
	return time.Duration(max(1, p.PeriodSeconds)) * time.Second
}

// outcomes returns when a probe succeeds first, zero if the container never responds, and when it
// has failed often enough if it does not succeed before.
func outcomes(p *corev1.Probe, start, base, responds time.Time) (ok, failed time.Time) {
	delayed := start.Add(time.Duration(p.InitialDelaySeconds) * time.Second)
	if !responds.IsZero() {
		ok = tick(base, period(p), latest(delayed, responds))
	}
	return ok, failure(p, start, base, delayed)
}

// failure returns when a probe has failed often enough whose container does not respond from some
// time on.
func failure(p *corev1.Probe, start, base, from time.Time) time.Time {
	delayed := start.Add(time.Duration(p.InitialDelaySeconds) * time.Second)
	first := tick(base, period(p), latest(delayed, from))
	return first.Add(time.Duration(max(1, p.FailureThreshold)-1) * period(p))
}

// tick returns the first of the times base, base+period, ... that is not before another one.
func tick(base time.Time, period time.Duration, notBefore time.Time) time.Time {
	wait := notBefore.Sub(base)
	if wait <= 0 {
		return base
	}
	return base.Add((wait + period - 1) / period * period)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failureOf returns the message of a failing probe.
func failureOf(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return "HTTP probe failed with statuscode: 503"
	case p.TCPSocket != nil:
		return "connection refused"
	case p.GRPC != nil:
		return "service unhealthy (responded with \"NOT_SERVING\")"
	}
	return "command failed"
}
