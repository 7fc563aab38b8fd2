package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBindings is the number of writes under way. Those of one time share a flush of the server's
// journal.
const maxBindings = 64

// firstRead is the pause after a failed read of an object whose write has failed. It doubles.
const firstRead = 100 * time.Millisecond

// write calls do in a goroutine, when not too many others write.
func (s *scheduler) write(ctx context.Context, do func()) {
	select {
	case s.bindings <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.writers.Go(func() {
		defer func() { <-s.bindings }()
		do()
	})
}

// bind binds a pod to a node. If that fails, the pod no longer counts on the node, and is retried.
func (s *scheduler) bind(ctx context.Context, n *pending, node string, claims *claimed) {
	p := n.pod
	s.write(ctx, func() {
		if claims != nil {
			if err := s.reserve(ctx, p, node, claims); err != nil {
				s.unreserve(ctx, p, claims)
				s.inbox.put(func() { s.unbind(ctx, n, claims, fmt.Errorf("running PreBind plugin %q: %w", ofDevices, err)) })
				return
			}
		}
		err := s.createBinding(ctx, p, node)
		if err == nil {
			s.events[p.Spec.SchedulerName].Eventf(p, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", p.Namespace, p.Name, node)
			return
		}
		if s.isBound(ctx, p) {
			return // the answer was lost
		}
		if claims != nil {
			s.unreserve(ctx, p, claims)
		}
		s.inbox.put(func() { s.unbind(ctx, n, claims, err) })
	})
}

// createBinding binds a pod to a node, as the plugin DefaultBinder.
func (s *scheduler) createBinding(ctx context.Context, p *corev1.Pod, node string) error {
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err := s.client.SubResource("binding").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}, b)
	if err != nil {
		return fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err)
	}
	return nil
}

// isBound asks the server, until it answers, whether a pod has a node. As long as that is not
// known, the pod counts on the node.
func (s *scheduler) isBound(ctx context.Context, p *corev1.Pod) bool {
	for pause := firstRead; ; pause = min(2*pause, lastPause) {
		var is corev1.Pod
		err := s.live.Get(ctx, client.ObjectKeyFromObject(p), &is)
		if err == nil {
			return is.UID == p.UID && is.Spec.NodeName != ""
		}
		if apierrors.IsNotFound(err) {
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return true
		}
	}
}

// unbind takes back an assumption that the server has refused.
func (s *scheduler) unbind(ctx context.Context, n *pending, claims *claimed, err error) {
	uid, missed := n.pod.UID, n.seen != s.queue.events
	if claims != nil {
		s.cluster.Release(claims.choices)
		s.queue.happened(time.Now(), ofDevices)
	}
	if !s.assumed[uid] {
		return // the pod has a node, or is gone
	}
	delete(s.assumed, uid)
	s.cluster.RemovePod(uid)
	s.queue.happened(time.Now(), ofLeft...)
	s.noticed(corev1.SchemeGroupVersion.WithKind("Pod"), n.pod, nil)
	if claims == nil && apierrors.IsNotFound(err) {
		s.queue.remove(uid)
		return
	}
	if !missed {
		n.seen = s.queue.events // the pod does not help itself
	}
	s.failed(ctx, n, err)
}

// refuse preempts pods in favour of one that fits no node. It reports why the pod fits none, in its
// condition and an event. The pod waits.
func (s *scheduler) refuse(ctx context.Context, n *pending, d place.Decision, profile *place.Profile, a *attempt) {
	if s.cluster.Len() == 0 {
		s.nominate(n.pod, "")
		s.report(ctx, n, corev1.PodReasonUnschedulable, d.Message())
		s.queue.fail(n, []string{noNodes}, time.Now())
		return
	}
	refused, message := d.Plugins(), d.Message()
	results, done := a.postFilter(d, true, nil)
	if claim := d.Stranded(); !done && claim != nil && !profile.NeverDeallocates {
		s.renounce(ctx, n, claim)
		results = append(results, "deallocation of ResourceClaim completed")
	} else if claim := d.Leftover(); !done && claim != nil && !profile.NeverDeallocates {
		s.discard(ctx, n, claim)
		results = append(results, "deletion of ResourceClaim completed")
	}
	var preemption place.Preemption
	if !done && !profile.NeverPreempts {
		preemption = d.Preempt(profile.Preempter)
		results = append(results, preemption.Message)
	}
	if !done && preemption.Node == "" {
		results, done = a.postFilter(d, false, results)
		preemption.Renounce = preemption.Renounce && !done
	}
	if len(results) > 0 {
		message += " " + strings.Join(results, ", ")
	}
	switch {
	case preemption.Node != "":
		s.nominate(n.pod, preemption.Node)
		s.report(ctx, n, corev1.PodReasonUnschedulable, message)
		s.preempt(ctx, n, preemption, refused)
		return
	case preemption.Renounce:
		s.nominate(n.pod, "")
	}
	s.report(ctx, n, corev1.PodReasonUnschedulable, message)
	s.queue.fail(n, refused, time.Now())
}

// renounce takes the devices of a claim away from a pod that fits no node because of them. If that
// fails, the pod is retried.
func (s *scheduler) renounce(ctx context.Context, n *pending, claim *resourcev1.ResourceClaim) {
	s.write(ctx, func() {
		if err := s.deallocate(ctx, claim); err != nil {
			s.inbox.put(func() { s.queue.retry(n, time.Now()) })
		}
	})
}

// report records an event and writes the condition PodScheduled and the nominated node, unless the
// pod has them already.
func (s *scheduler) report(ctx context.Context, n *pending, reason, message string) {
	p, nominated := n.pod, s.cluster.Nominated(n.pod.UID)
	s.write(ctx, func() {
		s.events[p.Spec.SchedulerName].Eventf(p, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", message)
		next := p.DeepCopy()
		next.Status.NominatedNodeName = nominated
		changed := setCondition(next, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message})
		if changed || nominated != p.Status.NominatedNodeName {
			_ = s.client.Status().Patch(ctx, next, client.StrategicMergeFrom(p)) // said again at the next attempt
		}
	})
}

// setCondition sets a condition of a pod, and reports whether it has changed.
func setCondition(p *corev1.Pod, c corev1.PodCondition) bool {
	c.ObservedGeneration, c.LastTransitionTime = p.Generation, metav1.Now()
	at := slices.IndexFunc(p.Status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
	if at < 0 {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return true
	}
	have := &p.Status.Conditions[at]
	if have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
	}
	changed := *have != c
	*have = c
	return changed
}
