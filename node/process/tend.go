package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	corev1 "k8s.io/api/core/v1"
)

// A health is the result of the probes and hooks of a container that runs.
type health struct {
	started, ready bool
	kill           string // why the container is killed, as the message of an event; "" if it is not
	grace          *int64 // of the probe
}

// A tender runs the probes and the postStart hook of one run of a container, until the run ends.
type tender struct {
	pods      *pods
	pod       *corev1.Pod
	container *corev1.Container
	run       proc.Run
	ip        string
	cancel    context.CancelFunc

	mu sync.Mutex
	health
}

// healthOf returns the health of a container that runs.
func (p *pods) healthOf(id proc.ID) health {
	p.mu.Lock()
	t := p.tended[id]
	p.mu.Unlock()
	if t == nil {
		return health{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.health
}

// tend starts the probes of containers that have started, and ends those of containers that have
// ended.
func (p *pods) tend(pod *corev1.Pod, runs []proc.Run, ip string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range runs {
		run := &runs[i]
		if run.Exit != nil {
			if t := p.tended[run.ID]; t != nil {
				t.cancel()
				delete(p.tended, run.ID)
			}
			if s := p.stops[run.ID]; s != nil {
				close(s.done)
				delete(p.stops, run.ID)
			}
			delete(p.fresh, run.ID)
			continue
		}
		c := containerOf(pod, run.ID.Container)
		if c == nil || p.tended[run.ID] != nil || begins(run) {
			continue
		}
		t := &tender{pods: p, pod: pod, container: c, run: *run, ip: ip}
		var ctx context.Context
		ctx, t.cancel = context.WithCancel(p.ctx)
		p.tended[run.ID] = t
		hook := c.Lifecycle != nil && c.Lifecycle.PostStart != nil && p.fresh[run.ID]
		if !hook && c.StartupProbe == nil && c.LivenessProbe == nil && c.ReadinessProbe == nil {
			t.health = health{started: true, ready: true}
			continue
		}
		p.group.Go(func() { t.do(ctx, hook) })
	}
}

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon); c.Name == name {
			return &c
		}
	}
	return nil
}

// do runs the hook, then the startup probe, then the other probes.
func (t *tender) do(ctx context.Context, hook bool) {
	if hook {
		if err := t.hook(ctx, t.container.Lifecycle.PostStart); err != nil {
			if ctx.Err() == nil {
				t.warn("FailedPostStartHook", "PostStartHook failed: "+err.Error())
				t.set(func(h *health) { h.kill = "FailedPostStartHook" })
			}
			return
		}
	}
	if probe := t.container.StartupProbe; probe != nil && !t.startup(ctx, probe) {
		return
	}
	t.set(func(h *health) { h.started, h.ready = true, t.container.ReadinessProbe == nil })
	var group sync.WaitGroup
	if probe := t.container.LivenessProbe; probe != nil {
		group.Go(func() { t.repeat(ctx, "Liveness", probe, t.kills("liveness", probe)) })
	}
	if probe := t.container.ReadinessProbe; probe != nil {
		group.Go(func() {
			t.repeat(ctx, "Readiness", probe, func(ok bool) bool {
				t.set(func(h *health) { h.ready = ok })
				return false
			})
		})
	}
	group.Wait()
}

// startup runs the startup probe, and reports whether it has succeeded.
func (t *tender) startup(ctx context.Context, probe *corev1.Probe) (started bool) {
	kill := t.kills("startup", probe)
	t.repeat(ctx, "Startup", probe, func(ok bool) bool {
		if ok {
			started = true
			return true
		}
		return kill(ok)
	})
	return started
}

// kills returns what kills the container when a probe fails.
func (t *tender) kills(which string, probe *corev1.Probe) func(bool) bool {
	return func(ok bool) bool {
		if ok {
			return false
		}
		word := "Container"
		for i := range t.pod.Spec.InitContainers {
			if t.pod.Spec.InitContainers[i].Name == t.container.Name {
				word = "Init container"
			}
		}
		t.set(func(h *health) {
			h.kill, h.grace = fmt.Sprintf("%s %s failed %s probe", word, t.container.Name, which), probe.TerminationGracePeriodSeconds
			h.ready = false
		})
		return true
	}
}

func (t *tender) set(change func(*health)) {
	t.mu.Lock()
	before := t.health
	change(&t.health)
	changed := before != t.health
	t.mu.Unlock()
	if changed {
		t.pods.wake(t.run.ID.Pod)
	}
}

func (t *tender) warn(reason, message string) {
	t.pods.events.Record(t.pod, recorder.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, FieldPath: fieldPath(t.pod, t.container.Name),
	})
}

// repeat runs a probe once in each period, until ctx ends or result, which is called when a
// threshold is reached, returns true.
func (t *tender) repeat(ctx context.Context, name string, probe *corev1.Probe, result func(ok bool) (end bool)) {
	period := time.Duration(max(1, probe.PeriodSeconds)) * time.Second
	if !pause(ctx, time.Until(t.run.Started.Add(time.Duration(probe.InitialDelaySeconds)*time.Second))) {
		return
	}
	count, last := int32(0), false
	for {
		begin := time.Now()
		err := t.probe(ctx, probe)
		if ctx.Err() != nil {
			return
		}
		if ok := err == nil; ok != last || count == 0 {
			count, last = 0, ok
		}
		count++
		threshold := probe.SuccessThreshold
		if err != nil {
			threshold = probe.FailureThreshold
			t.warn("Unhealthy", name+" probe failed: "+err.Error())
		}
		if count >= max(1, threshold) && result(last) {
			return
		}
		if !pause(ctx, time.Until(begin.Add(period))) {
			return
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// hook runs a hook.
func (t *tender) hook(ctx context.Context, h *corev1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		return t.exec(ctx, h.Exec.Command)
	case h.HTTPGet != nil:
		return t.get(ctx, h.HTTPGet)
	case h.Sleep != nil:
		pause(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return nil
	}
	return errors.New("the hook has no handler")
}

// A stopping is a container that is being stopped.
type stopping struct {
	done    chan struct{} // is closed when it has ended
	changed chan struct{} // has an element when until has changed

	mu    sync.Mutex
	until time.Time
}

func (s *stopping) end() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// stop begins to stop a container, and reports whether that is new. A shorter grace period replaces
// the one that runs.
func (p *pods) stop(pod *corev1.Pod, step *step) bool {
	until := time.Now().Add(step.grace)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.stops[step.run]; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if until.Before(s.until) {
			s.until = until
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
		return false
	}
	s := &stopping{done: make(chan struct{}), changed: make(chan struct{}, 1), until: until}
	p.stops[step.run] = s
	ip := pod.Status.PodIP
	p.group.Go(func() { p.end(pod, step, s, ip) })
	return true
}

// end stops a container: the hook, the signal TERM, and after the grace period KILL.
func (p *pods) end(pod *corev1.Pod, step *step, s *stopping, ip string) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	hooked := make(chan struct{})
	if h := step.container.Lifecycle; h != nil && h.PreStop != nil {
		t := &tender{pods: p, pod: pod, container: step.container, run: proc.Run{Spec: proc.Spec{ID: step.run}}, ip: ip}
		group.Go(func() {
			if err := t.hook(ctx, h.PreStop); err != nil && ctx.Err() == nil {
				t.warn("FailedPreStopHook", "PreStopHook failed: "+err.Error())
			}
			close(hooked)
		})
	} else {
		close(hooked)
	}
	defer cancel() // before the hook is waited for
	if p.waits(s, hooked, 0) {
		return
	}
	_ = p.runtime.Terminate(step.run) // it has ended, and s.done is closed
	if p.waits(s, nil, minGrace) {
		return
	}
	for {
		_ = p.runtime.Kill(step.run)
		select {
		case <-s.done:
			return
		case <-p.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// waits waits for the end of the container, of the grace period, but at least some time, or of a
// hook. It reports whether the container, or the node, has ended.
func (p *pods) waits(s *stopping, hook <-chan struct{}, least time.Duration) (over bool) {
	from := time.Now()
	for {
		timer := time.NewTimer(max(time.Until(s.end()), time.Until(from.Add(least))))
		select {
		case <-s.done:
			timer.Stop()
			return true
		case <-p.ctx.Done():
			timer.Stop()
			return true
		case <-hook:
			timer.Stop()
			return false
		case <-timer.C:
			return false
		case <-s.changed:
			timer.Stop()
		}
	}
}

// unsupported returns what a container asks for that cannot be ignored.
func unsupported(pod *corev1.Pod, c *corev1.Container) error {
	nonRoot := pod.Spec.SecurityContext != nil && isSet(pod.Spec.SecurityContext.RunAsNonRoot)
	if s := c.SecurityContext; s != nil && s.RunAsNonRoot != nil {
		nonRoot = *s.RunAsNonRoot
	}
	if nonRoot && userID() == 0 {
		return missing{fmt.Sprintf("container has runAsNonRoot and the node runs as root (pod: %q, container: %s)", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", c.Name)}
	}
	return nil
}

func isSet(b *bool) bool { return b != nil && *b }

// terminationMessage returns the termination message of a run that has ended.
func (p *pods) terminationMessage(c *corev1.Container, r proc.Run) string {
	if text := tailOf(p.runtime.Root(), p.messageFile(r.ID), longestMessage); text != "" {
		return text
	}
	if c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && r.Exit.Code != 0 {
		return p.lastLines(r.ID)
	}
	return ""
}
