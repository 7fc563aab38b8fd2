package process

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	corev1 "k8s.io/api/core/v1"
)

const (
	// stable is the time of a run after which the back-off begins again.
	stable = 2 * maxBackoff
	// minGrace is the time that a container has at least between the signals TERM and KILL.
	minGrace = 2 * time.Second
	// retryMissing is the time after which missing objects are looked for again.
	retryMissing = 2 * time.Second

	deadlineReason  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

// An input is all that decide depends on.
type input struct {
	pod    *corev1.Pod // is not changed
	now    time.Time
	runs   []proc.Run // of the pod, sorted by container and attempt
	hostIP string
	podIP  string // "" if none is free
	// volumes is why the volumes cannot be set up, nil if they are.
	volumes error
	// evicted is why the pod is evicted, "" if it is not.
	evicted string
	// health returns the results of the probes of a container that runs.
	health func(proc.ID) health
	// pull returns the state of the program of a container, nil before it is prepared.
	pull func(container string) *pull
	// config returns why the configuration of a container cannot be made.
	config func(*corev1.Container) error
	// message returns the termination message of a run that has ended.
	message func(*corev1.Container, proc.Run) string
}

// A step is what to do with a container.
type step struct {
	do        do
	container *corev1.Container
	run       proc.ID          // of stop
	grace     time.Duration    // of stop
	attempt   int              // of start
	backoff   time.Duration    // of start
	path      string           // of start
	events    []recorder.Event // of stop, when it begins
}

type do int

const (
	prepare do = iota // the program
	start
	stop
)

// An outcome is what decide has decided.
type outcome struct {
	status corev1.PodStatus
	events []recorder.Event
	steps  []step
	next   time.Time // when there is something to do without another change; zero: never
	gone   bool      // all containers have stopped, and the pod is to be deleted
	ended  bool      // the pod does not run again
}

// A decision computes what is to be done for a pod next, and its status.
type decision struct {
	input
	podstatus.Pod
	status corev1.PodStatus
	out    outcome
}

// decide decides what is to be done for a pod. It is a function of its input. Steps are the same
// until they are done: starting and stopping a container twice is to be prevented by the caller.
func decide(in input) outcome {
	d := &decision{input: in}
	d.begin()
	switch {
	case podstatus.Ended(d.Old.Phase):
		d.out.ended = true
		if d.stopAll(d.grace()) {
			d.out.gone = in.pod.DeletionTimestamp != nil
		}
		d.out.status = in.pod.Status
		return d.out
	case in.pod.DeletionTimestamp != nil:
		if d.stopAll(d.grace()) {
			d.Conclude("")
			d.out.gone, d.out.ended = true, true
		}
	case d.evicted != "":
		if d.stopAll(evictGrace) {
			d.Conclude(corev1.PodFailed)
			d.status.Reason, d.status.Message = evictedReason, d.evicted
			d.out.ended = true
		}
	case d.overdue():
		if d.stopAll(d.grace()) {
			d.event(nil, corev1.EventTypeNormal, deadlineReason, deadlineMessage)
			d.Conclude(corev1.PodFailed)
			d.status.Reason, d.status.Message = deadlineReason, deadlineMessage
			d.out.ended = true
		}
	default:
		d.sync()
	}
	d.finish()
	return d.out
}

// begin reads what is there.
func (d *decision) begin() {
	d.status = *d.pod.Status.DeepCopy()
	d.Pod = podstatus.Pod{Pod: d.pod, Old: &d.pod.Status, Status: &d.status, Now: d.now}
	s := &d.status
	if s.StartTime == nil {
		s.StartTime = new(podstatus.Seconds(d.now))
	}
	if s.Phase == "" {
		s.Phase = corev1.PodPending
	}
	if d.hostIP != "" {
		s.HostIP, s.HostIPs = d.hostIP, []corev1.HostIP{{IP: d.hostIP}}
	}
	d.Sandbox = podstatus.IsTrue(d.Old, corev1.PodReadyToStartContainers)
	d.Inits = d.containers(d.pod.Spec.InitContainers, s.InitContainerStatuses, podstatus.Init)
	d.Regular = d.containers(d.pod.Spec.Containers, s.ContainerStatuses, podstatus.Regular)
	var debug []corev1.Container
	for i := range d.pod.Spec.EphemeralContainers {
		debug = append(debug, corev1.Container(d.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	d.Ephemeral = d.containers(debug, s.EphemeralContainerStatuses, podstatus.Ephemeral)
}

func (d *decision) containers(specs []corev1.Container, old []corev1.ContainerStatus, kind podstatus.Kind) []*podstatus.Container {
	var all []*podstatus.Container
	for i := range specs {
		c := &podstatus.Container{Spec: &specs[i], Kind: kind}
		if kind == podstatus.Init {
			c.Kind = podstatus.KindOf(c.Spec)
		}
		status := podstatus.Waiting(d.pod, c.Spec)
		if j := slices.IndexFunc(old, func(s corev1.ContainerStatus) bool { return s.Name == c.Spec.Name }); j >= 0 {
			status = old[j]
		}
		c.Status = &status
		d.observe(c)
		all = append(all, c)
	}
	return all
}

// last returns the last run of a container and the one before, nil if there are none.
func (d *decision) last(container string) (last, before *proc.Run) {
	for i := range d.runs {
		if d.runs[i].ID.Container == container {
			last, before = &d.runs[i], last
		}
	}
	return last, before
}

// observe sets the state of a container by its runs.
func (d *decision) observe(c *podstatus.Container) {
	s := c.Status
	last, before := d.last(c.Spec.Name)
	if last == nil {
		if s.State.Running != nil { // its files are gone
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: proc.Lost, Message: "The container could not be located when the pod was updated",
				StartedAt: s.State.Running.StartedAt, FinishedAt: podstatus.Seconds(d.now), ContainerID: s.ContainerID,
			}}
		}
		return
	}
	if begins(last) {
		return
	}
	waits := s.State.Waiting
	s.RestartCount = int32(last.ID.Attempt)
	s.Image, s.ImageID, s.ContainerID = c.Spec.Image, cmp.Or(last.Reference, "process://"+last.Path), "process://"+last.ID.String()
	s.LastTerminationState = corev1.ContainerState{}
	if before != nil {
		s.LastTerminationState.Terminated = d.terminated(c, *before)
	}
	if last.Exit == nil {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: podstatus.Seconds(last.Started)}}
		h := d.health(last.ID)
		c.Starting = c.Kind == podstatus.Sidecar && !h.started
		return
	}
	end := d.terminated(c, *last)
	s.State = corev1.ContainerState{Terminated: end}
	if waits != nil && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" && c.Kind != podstatus.Ephemeral && c.MayRestart(d.pod.Spec.RestartPolicy) {
		s.State = corev1.ContainerState{Waiting: waits} // between two runs
		s.LastTerminationState.Terminated = end
	}
}

// begins reports whether a run has been started by a program that has ended since then, and its
// container does not run yet.
func begins(r *proc.Run) bool { return r.Exit == nil && r.Started.IsZero() }

func (d *decision) terminated(c *podstatus.Container, r proc.Run) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(r.Exit.Code), Reason: r.Exit.Reason, Message: r.Exit.Message,
		StartedAt: podstatus.Seconds(r.Started), FinishedAt: podstatus.Seconds(r.Exit.Time), ContainerID: "process://" + r.ID.String(),
	}
	if t.Reason == "" {
		t.Reason = "Completed"
		if t.ExitCode != 0 {
			t.Reason = "Error"
		}
	}
	if t.Message == "" {
		t.Message = d.message(c.Spec, r)
	}
	return t
}

func (d *decision) event(c *podstatus.Container, kind, reason, message string) {
	e := recorder.Event{Type: kind, Reason: reason, Message: message}
	if c != nil {
		e.FieldPath = recorder.FieldPath(c)
	}
	d.out.events = append(d.out.events, e)
}

func (d *decision) later(t time.Time) {
	if d.out.next.IsZero() || t.Before(d.out.next) {
		d.out.next = t
	}
}

// sync starts and restarts containers, in the order of a kubelet.
func (d *decision) sync() {
	for _, c := range d.All() {
		d.probeKill(c)
	}
	if d.Over() {
		if d.stopAll(d.grace()) {
			d.Sandbox = false
			d.SetPhase(d.ComputePhase(false))
			d.out.ended = podstatus.Ended(d.status.Phase)
		}
		return
	}
	if d.mounted() {
		d.run()
	}
	d.SetPhase(d.ComputePhase(false))
}

// mounted gives the pod its address, once its volumes are set up.
func (d *decision) mounted() bool {
	if d.volumes != nil {
		d.event(nil, corev1.EventTypeWarning, "FailedMount", d.volumes.Error())
		d.later(d.now.Add(retryMissing))
		return false
	}
	if d.podIP == "" && d.status.PodIP == "" {
		d.event(nil, corev1.EventTypeWarning, "FailedCreatePodSandBox", "no address is free")
		d.later(d.now.Add(retryMissing))
		return false
	}
	d.Sandbox = true
	if d.podIP != "" {
		d.status.PodIP, d.status.PodIPs = d.podIP, []corev1.PodIP{{IP: d.podIP}}
	}
	return true
}

// run starts what can be started.
func (d *decision) run() {
	for _, c := range d.Ephemeral {
		d.drive(c)
	}
	initialized := slices.ContainsFunc(d.Regular, (*podstatus.Container).HasStarted)
	for _, c := range d.Inits {
		if initialized && c.Kind == podstatus.Init {
			continue
		}
		d.drive(c)
		if !initialized && !d.passed(c) {
			return
		}
	}
	for _, c := range d.Regular {
		d.drive(c)
	}
}

// passed reports whether the container after an init container may start.
func (d *decision) passed(c *podstatus.Container) bool {
	if c.Kind == podstatus.Sidecar {
		return c.Status.State.Running != nil && !c.Starting
	}
	t := c.Status.State.Terminated
	return t != nil && t.ExitCode == 0
}

// drive starts a container that is to run, once its program, its configuration and its back-off
// permit.
func (d *decision) drive(c *podstatus.Container) {
	s := c.Status
	last, _ := d.last(c.Spec.Name)
	if s.State.Running != nil || last != nil && begins(last) {
		return
	}
	attempt, backoff := 0, time.Duration(0)
	if c.HasStarted() {
		if !c.MayRestart(d.pod.Spec.RestartPolicy) {
			return
		}
		attempt = int(s.RestartCount) + 1
		backoff = nextBackoff(last)
		if last != nil && d.now.Before(last.Exit.Time.Add(backoff)) {
			until := last.Exit.Time.Add(backoff)
			d.later(until)
			name := fmt.Sprintf("%s_%s(%s)", d.pod.Name, d.pod.Namespace, d.pod.UID)
			if c.Wait("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", backoff, s.Name, name)) {
				d.event(c, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", s.Name, name))
			}
			return
		}
	}
	path, ready := d.prepared(c)
	if !ready {
		return
	}
	if err := d.config(c.Spec); err != nil {
		if c.Wait("CreateContainerConfigError", err.Error()) {
			d.event(c, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		}
		d.later(d.now.Add(retryMissing))
		return
	}
	d.out.steps = append(d.out.steps, step{do: start, container: c.Spec, attempt: attempt, backoff: backoff, path: path})
}

// nextBackoff returns how long a container waits after a run: not at all after the first one, then
// 10 s, and twice as long after each further one, up to 5 minutes.
func nextBackoff(last *proc.Run) time.Duration {
	switch {
	case last == nil || last.ID.Attempt == 0 || !last.Started.IsZero() && last.Exit.Time.Sub(last.Started) > stable:
		return 0
	case last.Backoff == 0:
		return minBackoff
	}
	return min(2*last.Backoff, maxBackoff)
}

// prepared returns the program of a container, if it is ready.
func (d *decision) prepared(c *podstatus.Container) (path string, ready bool) {
	p := d.pull(c.Spec.Name)
	switch {
	case p == nil:
		d.out.steps = append(d.out.steps, step{do: prepare, container: c.Spec})
		return "", false
	case p.path != "":
		return p.path, true
	case p.running:
		return "", false
	}
	if errors.Is(p.err, ErrNotPresent) {
		d.neverPull(c, p)
		return "", false
	}
	if shown := p.at.Add(showPullError); d.now.Before(shown) {
		d.later(shown)
		if c.Wait("ErrImagePull", p.err.Error()) {
			d.event(c, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.Spec.Image, p.err))
			d.event(c, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		}
		return "", false
	}
	if next := p.at.Add(p.wait); d.now.Before(next) {
		d.later(next)
	} else {
		d.out.steps = append(d.out.steps, step{do: prepare, container: c.Spec})
	}
	if c.Wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Spec.Image, p.err)) {
		d.event(c, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Spec.Image))
		d.event(c, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
	}
	return "", false
}

// neverPull lets a container wait for an image that may not be pulled.
func (d *decision) neverPull(c *podstatus.Container, p *pull) {
	message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Spec.Image)
	if c.Wait("ErrImageNeverPull", message) {
		d.event(c, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		d.event(c, corev1.EventTypeWarning, "Failed", "Error: ErrImageNeverPull")
	}
	if next := p.at.Add(p.wait); d.now.Before(next) {
		d.later(next)
		return
	}
	d.out.steps = append(d.out.steps, step{do: prepare, container: c.Spec})
}

// probeKill stops a container whose probe or hook has failed.
func (d *decision) probeKill(c *podstatus.Container) {
	last, _ := d.last(c.Spec.Name)
	if last == nil || last.Exit != nil {
		return
	}
	h := d.health(last.ID)
	if h.kill == "" {
		return
	}
	grace := cmp.Or(h.grace, d.pod.Spec.TerminationGracePeriodSeconds, new(int64(30)))
	at := recorder.FieldPath(c)
	d.out.steps = append(d.out.steps, step{
		do: stop, container: c.Spec, run: last.ID, grace: max(minGrace, time.Duration(*grace)*time.Second),
		events: []recorder.Event{
			{Type: corev1.EventTypeNormal, Reason: "Killing", Message: h.kill + c.WillRestart(d.pod.Spec.RestartPolicy), FieldPath: at},
		},
	})
}

// overdue reports whether the pod has been active for too long.
func (d *decision) overdue() bool {
	seconds := d.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return false
	}
	end := d.status.StartTime.Add(time.Duration(*seconds) * time.Second)
	if d.now.Before(end) {
		d.later(end)
		return false
	}
	return true
}

// grace returns the grace period of the pod.
func (d *decision) grace() time.Duration {
	seconds := cmp.Or(d.pod.DeletionGracePeriodSeconds, d.pod.Spec.TerminationGracePeriodSeconds, new(int64(30)))
	return max(minGrace, time.Duration(*seconds)*time.Second)
}

// stopAll stops all containers, and reports whether all have stopped. Sidecars stop after all
// others, in reverse order.
func (d *decision) stopAll(grace time.Duration) (done bool) {
	done = true
	for _, c := range slices.Concat(d.Regular, d.Ephemeral, d.Inits) {
		if c.Kind != podstatus.Sidecar && !d.stopOne(c, grace) {
			done = false
		}
	}
	for _, c := range slices.Backward(d.Inits) {
		if c.Kind == podstatus.Sidecar && done {
			done = d.stopOne(c, grace)
		}
	}
	return done
}

func (d *decision) stopOne(c *podstatus.Container, grace time.Duration) (stopped bool) {
	last, _ := d.last(c.Spec.Name)
	if last == nil || last.Exit != nil {
		return true
	}
	killing := recorder.Event{Type: corev1.EventTypeNormal, Reason: "Killing", Message: "Stopping container " + c.Spec.Name, FieldPath: recorder.FieldPath(c)}
	d.out.steps = append(d.out.steps, step{do: stop, container: c.Spec, run: last.ID, grace: grace, events: []recorder.Event{killing}})
	return false
}

// finish completes the status.
func (d *decision) finish() {
	s := &d.status
	lists := [][]*podstatus.Container{d.Inits, d.Regular, d.Ephemeral}
	var written [3][]corev1.ContainerStatus
	for i, list := range lists {
		for _, c := range list {
			d.setReady(c)
			written[i] = append(written[i], *c.Status)
		}
	}
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = written[0], podstatus.Sorted(written[1]), podstatus.Sorted(written[2])
	s.ObservedGeneration = max(d.pod.Generation, d.Old.ObservedGeneration)
	d.SetConditions()
	d.out.status = *s
}

// setReady sets started and ready of a container's status.
func (d *decision) setReady(c *podstatus.Container) {
	s := c.Status
	started, ready := false, false
	if last, _ := d.last(c.Spec.Name); last != nil && last.Exit == nil && !begins(last) {
		h := d.health(last.ID)
		started, ready = h.started, h.ready
	}
	if c.Kind == podstatus.Init {
		ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	if c.Kind == podstatus.Ephemeral {
		s.Ready = false
		return
	}
	s.Started, s.Ready = &started, ready
}
