package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// track counts the pods that have ended, and ends the Job when there is an outcome and no pod is
// left to be counted. It writes the status up to twice: before finalizers are removed, with the
// uids of their pods, and afterwards with the counters. changed says that the status has changed
// already.
func (p *pass) track(ctx context.Context, changed bool) error {
	withFinalizer := map[types.UID]bool{}
	for _, one := range p.pods {
		if tracked(one) {
			withFinalizer[one.UID] = true
		}
	}
	changed = p.addReleased(withFinalizer) || changed
	ended, more, noted := p.note()
	changed = p.showOutcome() || noted || changed
	if changed {
		if err := p.writeStatus(ctx); err != nil {
			return fmt.Errorf("adding uncounted pods to status: %w", err)
		}
		p.backoffs.set(p.job, p.backoff)
	}
	failed := p.releaseAll(ctx, ended, withFinalizer)
	changed = p.addReleased(withFinalizer)
	done := failed == nil && !more && p.end()
	if changed || done {
		if err := p.writeStatus(ctx); err != nil {
			return fmt.Errorf("removing uncounted pods from status: %w", err)
		}
	}
	if done {
		p.announce()
	}
	return failed
}

func (p *pass) writeStatus(ctx context.Context) error {
	if err := p.client.Status().Update(ctx, p.job); err != nil {
		return err
	}
	p.metrics.counted(p.job, p.stored, p.job.Status)
	p.job.Status.DeepCopyInto(&p.stored)
	return nil
}

// note enters the pods that have ended into the status, and returns those whose finalizer can be
// removed then. more says that there are further ones: the uids of all might not fit into the
// status.
func (p *pass) note() (ended []*corev1.Pod, more, changed bool) {
	uncounted := p.job.Status.UncountedTerminatedPods
	if indexed(p.job) {
		slices.SortStableFunc(p.pods, func(a, b *corev1.Pod) int { return cmp.Compare(indexOf(a), indexOf(b)) })
	}
	var done []int
	for _, one := range p.pods {
		if !tracked(one) || !p.releasable(one) {
			continue
		}
		if len(done)+len(uncounted.Succeeded)+len(uncounted.Failed) >= burst {
			more = true
			break
		}
		ended = append(ended, one)
		switch {
		case p.countedFailed.Has(one.UID) || p.countedSucceeded.Has(one.UID) || !p.hasIndex(one):
		case one.Status.Phase == corev1.PodSucceeded && indexed(p.job):
			if i := indexOf(one); !p.doneBefore.has(i) {
				done = append(done, i)
			}
		case one.Status.Phase == corev1.PodSucceeded:
			uncounted.Succeeded = append(uncounted.Succeeded, one.UID)
			changed = true
		case p.countsAsFailed(one):
			uncounted.Failed = append(uncounted.Failed, one.UID)
			changed = true
		}
	}
	if indexed(p.job) {
		changed = p.showIndexes(p.doneBefore.with(done)) || changed
	}
	return ended, more, changed
}

// releasable reports whether the finalizer of a pod has served its purpose.
func (p *pass) releasable(one *corev1.Pod) bool {
	if p.job.DeletionTimestamp != nil || p.outcome != nil || one.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !p.isFailed(one) {
		return false
	}
	replaced := p.toReplace[indexOf(one)]
	return replaced == nil || replaced.UID != one.UID
}

// countsAsFailed reports whether a pod that has not succeeded counts as failed. When the Job has
// failed, all of them do.
func (p *pass) countsAsFailed(one *corev1.Pod) bool {
	jobFailed := p.outcome != nil && p.outcome.Type != batchv1.JobSuccessCriteriaMet
	if !jobFailed && !p.isFailed(one) {
		return false
	}
	action, _ := verdict(p.job.Spec.PodFailurePolicy, one)
	return action != batchv1.PodFailurePolicyActionIgnore
}

// showIndexes enters the indexes into the status, and reports whether it has changed.
func (p *pass) showIndexes(done indexes) (changed bool) {
	status := &p.job.Status
	was, wasFailed := status.CompletedIndexes, status.FailedIndexes
	status.Succeeded, status.CompletedIndexes = int32(done.count()), done.String()
	if status.FailedIndexes = nil; p.job.Spec.BackoffLimitPerIndex != nil {
		status.FailedIndexes = new(p.failedIndexes.String())
	}
	sameFailed := (wasFailed == nil) == (status.FailedIndexes == nil) && (wasFailed == nil || *wasFailed == *status.FailedIndexes)
	return status.CompletedIndexes != was || !sameFailed
}

// showOutcome adds the condition that announces the outcome, and reports whether the status has
// changed. The outcome becomes the condition with which the Job ends.
func (p *pass) showOutcome() (changed bool) {
	if p.outcome == nil || p.outcome.Type == batchv1.JobFailed {
		return false
	}
	end := batchv1.JobComplete
	if p.outcome.Type == batchv1.JobFailureTarget {
		end = batchv1.JobFailed
	}
	if isTrue(p.job, p.outcome.Type) == nil {
		p.job.Status.Conditions = append(p.job.Status.Conditions, *p.outcome)
		changed = true
	}
	p.outcome = p.condition(end, p.outcome.Reason, p.outcome.Message)
	return changed
}

// addReleased adds the uncounted pods without a finalizer to the counters, and reports whether
// there are any.
func (p *pass) addReleased(withFinalizer map[types.UID]bool) bool {
	status := &p.job.Status
	uncounted := status.UncountedTerminatedPods
	if uncounted == nil {
		return false
	}
	without := func(uid types.UID) bool { return !withFinalizer[uid] }
	was := len(uncounted.Succeeded) + len(uncounted.Failed)
	succeeded, failed := len(uncounted.Succeeded), len(uncounted.Failed)
	uncounted.Succeeded = slices.DeleteFunc(uncounted.Succeeded, without)
	uncounted.Failed = slices.DeleteFunc(uncounted.Failed, without)
	status.Succeeded += int32(succeeded - len(uncounted.Succeeded))
	status.Failed += int32(failed - len(uncounted.Failed))
	return len(uncounted.Succeeded)+len(uncounted.Failed) != was
}

// end sets the condition with which the Job ends, and reports whether it can: all pods have ended
// and are counted.
func (p *pass) end() bool {
	status := &p.job.Status
	if u := status.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		return false
	}
	if p.outcome == nil || p.terminating > 0 {
		return false
	}
	setCondition(status, *p.outcome)
	if p.outcome.Type == batchv1.JobComplete {
		status.CompletionTime = p.outcome.LastTransitionTime.DeepCopy()
	}
	return true
}

// announce records the event with which the Job ends, and counts that.
func (p *pass) announce() {
	p.metrics.ended(p.job, *p.outcome)
	if p.outcome.Type == batchv1.JobFailed {
		p.events.Event(p.job, corev1.EventTypeWarning, p.outcome.Reason, p.outcome.Message)
		return
	}
	if c := p.job.Spec.Completions; c != nil && p.job.Status.Succeeded > *c {
		p.events.Event(p.job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	p.events.Event(p.job, corev1.EventTypeNormal, "Completed", "Job completed")
}
