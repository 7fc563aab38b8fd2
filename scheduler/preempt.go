package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// nominate notes the node that a pod without one is going to get, or that there is none. Pods that
// yielded to it on its previous node are retried.
func (s *scheduler) nominate(p *corev1.Pod, node string) {
	had := s.cluster.Nominated(p.UID)
	s.cluster.Nominate(p, node)
	if had != "" && had != node {
		s.queue.happened(time.Now(), ofLeft...)
	}
}

// preempt deletes the victims of a preemption in favour of a pod. Until that is done, the pod is
// not tried. Pods with lower priorities that are nominated for the node lose their nomination.
func (s *scheduler) preempt(ctx context.Context, n *pending, what place.Preemption, refused []string) {
	p := n.pod
	for _, lower := range s.cluster.LowerNominees(p, what.Node) {
		s.cluster.Nominate(lower, "")
		if other := s.queue.pods[lower.UID]; other != nil {
			s.queue.retry(other, time.Now())
		}
		s.write(ctx, func() { s.clearNomination(ctx, lower) })
	}
	s.write(ctx, func() {
		var failed error
		for _, victim := range what.Victims {
			if victim.DeletionTimestamp != nil {
				continue
			}
			if err := s.evict(ctx, victim, p, what.Node); err != nil {
				failed = err
				break
			}
			s.inbox.put(func() { s.cluster.Evict(victim.UID) })
		}
		s.inbox.put(func() {
			if failed != nil {
				refused = nil // the pod is tried again after its backoff
			}
			s.queue.fail(n, refused, time.Now())
		})
	})
}

// evict deletes a pod in favour of another one.
func (s *scheduler) evict(ctx context.Context, victim, p *corev1.Pod, node string) error {
	preempted := func() {
		s.events[p.Spec.SchedulerName].Eventf(victim, p, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", p.UID, node)
	}
	if s.waiting.end(victim.UID, errPreempted) {
		preempted()
		return nil // it has not got its node yet
	}
	next := victim.DeepCopy()
	if setCondition(next, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", p.Spec.SchedulerName),
	}) {
		if err := s.client.Status().Patch(ctx, next, client.StrategicMergeFrom(victim)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	uid := victim.UID
	err := s.client.Delete(ctx, &corev1.Pod{ObjectMeta: next.ObjectMeta}, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone, and perhaps another one has its name
	}
	if err != nil {
		return err
	}
	preempted()
	return nil
}

// clearNomination removes the nominated node of a pod that another one takes. An error leaves it
// until the pod is tried again.
func (s *scheduler) clearNomination(ctx context.Context, p *corev1.Pod) {
	next := p.DeepCopy()
	next.Status.NominatedNodeName = ""
	if p.Status.NominatedNodeName != "" {
		_ = s.client.Status().Patch(ctx, next, client.StrategicMergeFrom(p))
	}
}

func (s *scheduler) setBudget(_, o client.Object) {
	s.cluster.SetBudget(o.(*policyv1.PodDisruptionBudget))
}

func (s *scheduler) removeBudget(o client.Object) {
	s.cluster.RemoveBudget(o.GetNamespace(), o.GetName())
}
