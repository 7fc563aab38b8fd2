package simulated

import (
	"slices"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	corev1 "k8s.io/api/core/v1"
)

// An input is all that a look at a pod depends on.
type input struct {
	pod        *corev1.Pod // is not changed
	node       host
	simulation simulation
	needs      needs
	podIPs     []string // the addresses that the pod gets, unless it has some
	now        time.Time
}

// A host is the part of a node that a look depends on.
type host struct {
	ips         []string
	allocatable corev1.ResourceList
}

// needs are the objects that a pod refers to and that are not there, as the messages of a kubelet.
type needs struct {
	volumes []string          // why volumes cannot be mounted
	claims  string            // why resource claims cannot be prepared
	config  map[string]string // why containers cannot be created, by their names
}

func (n *needs) empty() bool { return len(n.volumes) == 0 && n.claims == "" && len(n.config) == 0 }

// An outcome is the result of a look.
type outcome struct {
	status corev1.PodStatus // shares memory with the pod
	events []event          // in their order
	next   time.Time        // when the status changes next without another change; zero: never
	gone   bool             // the pod is to be deleted once its status is written
}

// An event is one of a pod or of one of its containers.
type event struct {
	container *container // nil: of the pod
	kind      string     // corev1.EventTypeNormal or -Warning
	reason    string
	message   string
	standing  bool // it is reported at each look as long as its cause lasts
}

// record returns an event as it is recorded.
func (e *event) record() recorder.Event {
	r := recorder.Event{Type: e.kind, Reason: e.reason, Message: e.message}
	if e.container != nil {
		r.FieldPath = recorder.FieldPath(&e.container.Container)
	}
	return r
}

// A look computes the current status of a pod from the last written one.
type look struct {
	input
	old       *corev1.PodStatus
	status    corev1.PodStatus
	inits     []*container
	regular   []*container // in the order of the spec
	ephemeral []*container
	sandbox   bool // the pod has its network
	events    []event
	next      time.Time
}

// advance looks at a pod. It is a function of its input: the status of the pod is all that it knows
// of the past. Times of a status have seconds, so what depends on them is exact to a second.
func advance(in input) outcome {
	l := newLook(in)
	switch {
	case podstatus.Ended(l.old.Phase):
		return l.ended()
	case l.pod.DeletionTimestamp != nil:
		return l.deleting()
	case l.overdue():
		l.stopOverdue()
	default:
		l.sync()
	}
	return l.outcome()
}

func newLook(in input) *look {
	l := &look{input: in, old: &in.pod.Status, status: in.pod.Status}
	s := &l.status
	if s.StartTime == nil {
		s.StartTime = new(podstatus.Seconds(in.now))
	}
	if s.Phase == "" {
		s.Phase = corev1.PodPending
	}
	if len(in.node.ips) > 0 {
		s.HostIP, s.HostIPs = in.node.ips[0], nil
		for _, ip := range in.node.ips {
			s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
		}
	}
	l.sandbox = podstatus.IsTrue(l.old, corev1.PodReadyToStartContainers)
	l.inits = l.containers(in.pod.Spec.InitContainers, s.InitContainerStatuses, podstatus.Init)
	l.regular = l.containers(in.pod.Spec.Containers, s.ContainerStatuses, podstatus.Regular)
	var debug []corev1.Container
	for i := range in.pod.Spec.EphemeralContainers {
		debug = append(debug, corev1.Container(in.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	l.ephemeral = l.containers(debug, s.EphemeralContainerStatuses, podstatus.Ephemeral)
	return l
}

// outcome composes the status of the containers' ones.
func (l *look) outcome() outcome {
	for _, c := range l.all() {
		l.probe(c)
	}
	l.status.InitContainerStatuses = statuses(l.inits)
	l.status.ContainerStatuses = podstatus.Sorted(statuses(l.regular))
	l.status.EphemeralContainerStatuses = podstatus.Sorted(statuses(l.ephemeral))
	l.status.ObservedGeneration = max(l.pod.Generation, l.old.ObservedGeneration)
	l.resources()
	l.view().SetConditions()
	return outcome{status: l.status, events: l.events, next: l.next}
}

// all returns the containers in the order in which they start.
func (l *look) all() []*container {
	return slices.Concat(l.inits, l.regular, l.ephemeral)
}

// later notes a time at which there is something to do.
func (l *look) later(t time.Time) {
	if l.next.IsZero() || t.Before(l.next) {
		l.next = t
	}
}

// emit notes an event of a container, or of the pod for nil.
func (l *look) emit(c *container, kind, reason, message string) {
	l.events = append(l.events, event{container: c, kind: kind, reason: reason, message: message})
}

// stand notes an event whose cause lasts.
func (l *look) stand(reason, message string) {
	l.events = append(l.events, event{kind: corev1.EventTypeWarning, reason: reason, message: message, standing: true})
}

// sync does what a kubelet does for a pod that is to run: it starts and restarts containers, and
// stops the pod when none is left to run.
func (l *look) sync() {
	l.resize()
	for _, c := range l.all() {
		if !l.exit(c) {
			l.redefine(c)
		}
	}
	if !l.view().Over() && l.mounted() {
		l.network()
		l.run()
	}
	l.phase()
}

// mounted reports whether the pod can start its first container.
func (l *look) mounted() bool {
	if l.sandbox {
		return true
	}
	for _, message := range l.needs.volumes {
		l.stand("FailedMount", message)
	}
	if len(l.needs.volumes) > 0 {
		return false
	}
	if l.needs.claims != "" {
		l.stand("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: "+l.needs.claims)
		return false
	}
	return true
}

// network creates the sandbox of the pod.
func (l *look) network() {
	if l.sandbox {
		return
	}
	l.sandbox = true
	ips := l.podIPs
	if l.pod.Spec.HostNetwork {
		ips = l.node.ips
	}
	if l.status.PodIP == "" && len(ips) > 0 {
		l.status.PodIP, l.status.PodIPs = ips[0], nil
		for _, ip := range ips {
			l.status.PodIPs = append(l.status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// run starts what can be started, in the order of a kubelet.
func (l *look) run() {
	turn := turn{since: l.networkSince(), fresh: !podstatus.IsTrue(l.old, corev1.PodReadyToStartContainers)}
	for _, c := range l.ephemeral {
		l.drive(c, &turn)
	}
	initialized := slices.ContainsFunc(l.regular, (*container).HasStarted)
	for _, c := range l.inits {
		if initialized && c.Kind == podstatus.Init {
			continue // it does not run again
		}
		l.drive(c, &turn)
		if !initialized && !l.initialized(c) {
			return
		}
		turn.passed(c, l)
	}
	for _, c := range l.regular {
		if l.drive(c, &turn); turn.pulling {
			return // a kubelet starts containers one after the other
		}
		turn.passed(c, l)
	}
}

// initialized reports whether the next container may start.
func (l *look) initialized(c *container) bool {
	if c.Kind == podstatus.Sidecar {
		if c.Status.State.Running == nil {
			return false
		}
		started, _ := l.probes(c).at(l.now)
		return started
	}
	t := c.Status.State.Terminated
	return t != nil && t.ExitCode == 0
}

// networkSince returns when the sandbox was created.
func (l *look) networkSince() time.Time {
	if c := podstatus.Condition(l.old, corev1.PodReadyToStartContainers); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return l.now
}

// A turn is the time at which a container may begin to start: when the one before it has started.
type turn struct {
	since   time.Time
	fresh   bool // that was in this look
	pulling bool // the image of a container is being pulled
}

// passed moves the turn to the container after c.
func (t *turn) passed(c *container, l *look) {
	at, fresh := c.firstStart(), c.fresh
	if end := c.Status.State.Terminated; end != nil && c.Kind == podstatus.Init {
		at = end.FinishedAt.Time
		fresh = !slices.ContainsFunc(l.old.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Spec.Name && s.State.Terminated != nil
		})
	}
	if at.After(t.since) {
		t.since = at
	}
	t.fresh = t.fresh || fresh
}
