package job

import (
	"context"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A pass is one reconcile of a Job.
type pass struct {
	*reconciler
	job    *batchv1.Job      // a copy, whose status becomes the new one
	stored batchv1.JobStatus // that the server has; it is not changed
	now    time.Time
	again  time.Duration // when the Job needs another pass without an event; 0 is never
	action string        // the action, for metrics

	pods        []*corev1.Pod // all that the Job controls
	activePods  []*corev1.Pod // those that have not ended and are not being deleted
	active      int32         // how many are active after this pass
	ready       int32         // how many of them are ready
	terminating int32         // how many are being deleted and have not ended

	// Pods in status.uncountedTerminatedPods when the pass began.
	countedSucceeded, countedFailed sets.Set[types.UID]
	succeeded, failed               int32 // pods, or indexes, including those not yet in the counters
	backoff                         backoff

	// Of Indexed Jobs only. Indexes that have failed exist with backoffLimitPerIndex only, and so
	// does toReplace: the last failed pod of each index that waits for another one.
	doneBefore, done indexes
	failedIndexes    indexes
	toReplace        map[int]*corev1.Pod

	// outcome is the condition with which the Job ends: SuccessCriteriaMet; FailureTarget when it is
	// new, and Failed when the status has FailureTarget already. Nil: the Job goes on.
	outcome *batchv1.JobCondition
}

func (p *pass) run(ctx context.Context) error {
	if err := p.claim(ctx); err != nil {
		return err
	}
	p.count()
	if p.job.Status.StartTime == nil && !suspended(p.job) {
		p.job.Status.StartTime = new(metav1.NewTime(p.now))
	}
	p.outcome = p.judge()
	changed, failed := false, error(nil)
	switch {
	case p.outcome != nil:
		if failed = p.remove(ctx, p.activePods, keepFinalizer); p.active > 0 {
			p.outcome = nil // not before all pods are being deleted
		}
	case p.job.DeletionTimestamp == nil:
		failed = p.manage(ctx)
		if p.complete() {
			p.outcome = p.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		} else {
			changed = p.showSuspension()
		}
	case p.complete():
		p.outcome = p.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
	status := &p.job.Status
	changed = changed || status.Active != p.active || !equal(status.Ready, p.ready) || !equal(status.Terminating, p.terminating)
	status.Active, status.Ready, status.Terminating = p.active, new(p.ready), new(p.terminating)
	if err := p.track(ctx, changed); err != nil {
		return err
	}
	return failed
}

func equal(p *int32, value int32) bool { return p != nil && *p == value }

// later asks for another pass after some time.
func (p *pass) later(after time.Duration) {
	if p.again == 0 || after < p.again {
		p.again = after
	}
}

// claim finds the pods of the Job, and adopts and releases pods.
func (p *pass) claim(ctx context.Context) error {
	selector, err := metav1.LabelSelectorAsSelector(p.job.Spec.Selector)
	if err != nil {
		return err
	}
	var mine, orphans corev1.PodList
	if err := owned.List(ctx, p.client, &mine, p.job.Namespace, p.job.UID); err != nil {
		return err
	}
	if err := owned.ListOrphans(ctx, p.client, &orphans, p.job.Namespace); err != nil {
		return err
	}
	claim := owned.Claim[*corev1.Pod]{
		Client: p.client, Live: p.live, Owner: p.job, Kind: gvk, Selector: selector,
		Finalizers: []string{batchv1.JobTrackingFinalizer},
	}
	p.pods, err = claim.All(ctx, owned.Pointers(mine.Items, orphans.Items))
	if err != nil {
		return err
	}
	for i, one := range p.pods {
		if !metav1.IsControlledBy(one, p.job) && !tracked(one) { // adopted just now
			one = one.DeepCopy()
			one.Finalizers = append(one.Finalizers, batchv1.JobTrackingFinalizer)
			p.pods[i] = one
		}
	}
	return nil
}

// count counts the pods.
func (p *pass) count() {
	status := &p.job.Status
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	p.countedSucceeded = sets.New(status.UncountedTerminatedPods.Succeeded...)
	p.countedFailed = sets.New(status.UncountedTerminatedPods.Failed...)
	var succeeded, failed []*corev1.Pod // since the last pass
	for _, one := range p.pods {
		switch {
		case pod.Active(one):
			p.activePods = append(p.activePods, one)
			if pod.Ready(one) {
				p.ready++
			}
		case pod.Terminating(one):
			p.terminating++
		}
		if !tracked(one) || !p.hasIndex(one) || p.countedFailed.Has(one.UID) {
			continue
		}
		switch {
		case one.Status.Phase == corev1.PodSucceeded && !p.countedSucceeded.Has(one.UID):
			succeeded = append(succeeded, one)
		case p.isFailed(one):
			failed = append(failed, one)
		}
	}
	p.active = int32(len(p.activePods))
	p.succeeded = status.Succeeded + int32(len(succeeded)+len(p.countedSucceeded))
	p.failed = status.Failed + int32(len(p.countedFailed))
	for _, one := range failed {
		if action, _ := verdict(p.job.Spec.PodFailurePolicy, one); action != batchv1.PodFailurePolicyActionIgnore {
			p.failed++
		}
	}
	p.backoff = p.backoffs.of(p.job).after(succeeded, failed)
	if indexed(p.job) {
		p.countIndexes()
	}
}

// countIndexes counts the indexes that have succeeded and failed.
func (p *pass) countIndexes() {
	completions := int(*p.job.Spec.Completions)
	p.doneBefore = parseIndexes(p.job.Status.CompletedIndexes, completions)
	var done, failed []int
	for _, one := range p.pods {
		if !tracked(one) || !p.hasIndex(one) {
			continue
		}
		if one.Status.Phase == corev1.PodSucceeded && !p.countedFailed.Has(one.UID) {
			done = append(done, indexOf(one))
		}
		if p.failsIndex(one) {
			failed = append(failed, indexOf(one))
		}
	}
	p.done = p.doneBefore.with(done)
	p.succeeded = int32(p.done.count())
	if p.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	if text := p.job.Status.FailedIndexes; text != nil {
		p.failedIndexes = parseIndexes(*text, completions)
	}
	p.failedIndexes = p.failedIndexes.with(failed)
	p.findToReplace()
}

// findToReplace finds the failed pods that keep their finalizer until their index has another pod,
// which takes over their numbers of failures.
func (p *pass) findToReplace() {
	settled := union(p.done, p.failedIndexes, indexesOf(p.activePods))
	p.toReplace = map[int]*corev1.Pod{}
	for _, one := range p.pods {
		if !tracked(one) || !p.hasIndex(one) || !p.isFailed(one) || settled.has(indexOf(one)) {
			continue
		}
		other := p.toReplace[indexOf(one)]
		if other == nil || failuresOf(other) <= failuresOf(one) && !endOf(one).Before(endOf(other)) {
			p.toReplace[indexOf(one)] = one
		}
	}
}

// hasIndex reports whether a pod counts for the Job: those of Indexed Jobs need an index below
// spec.completions.
func (p *pass) hasIndex(one *corev1.Pod) bool {
	return !indexed(p.job) || indexOf(one) >= 0 && indexOf(one) < int(*p.job.Spec.Completions)
}

// isFailed reports whether a pod has failed. A pod that is being deleted has, too, unless
// spec.podReplacementPolicy waits for its end: it may never reach the phase.
func (p *pass) isFailed(one *corev1.Pod) bool {
	if one.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesFailedOnly(p.job) && pod.Terminating(one)
}

// complete reports whether enough pods have succeeded, and none is active any more.
func (p *pass) complete() bool {
	if p.active > 0 {
		return false
	}
	if p.job.Spec.Completions == nil {
		return p.succeeded > 0
	}
	return p.succeeded >= *p.job.Spec.Completions
}

// showSuspension sets the condition Suspended, and reports whether it has changed.
func (p *pass) showSuspension() bool {
	status := &p.job.Status
	if suspended(p.job) {
		if !setCondition(status, *p.condition(batchv1.JobSuspended, "JobSuspended", "Job suspended")) {
			return false
		}
		p.events.Event(p.job, corev1.EventTypeNormal, "Suspended", "Job suspended")
		status.StartTime = nil
		return true
	}
	resumed := *p.condition(batchv1.JobSuspended, "JobResumed", "Job resumed")
	resumed.Status = corev1.ConditionFalse
	if !setCondition(status, resumed) {
		return false
	}
	p.events.Event(p.job, corev1.EventTypeNormal, "Resumed", "Job resumed")
	status.StartTime = new(metav1.NewTime(p.now)) // activeDeadlineSeconds begins again
	return true
}

// tracked reports whether a pod is still to be counted.
func tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }
