package cronjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/job"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pass is a CronJob in one reconcile. The status of cron is what will be written; the Jobs belong
// to the cache.
type pass struct {
	*reconciler
	cron *batchv1.CronJob
	jobs []*batchv1.Job // that it controls
	now  time.Time

	schedule cron.Schedule // nil if it cannot be parsed
	due      time.Time     // the latest slot that has not been started; zero if there is none
	missed   int64         // about how many slots have passed, if more than one
	failed   bool          // an old Job could not be deleted
}

// run brings the CronJob up to date. It returns when to do that again; 0 is not before the next
// event.
func (p *pass) run(ctx context.Context) (again time.Duration, err error) {
	recalled := p.recall()
	schedule, parseErr := parse(p.cron)
	var slotErr error
	if parseErr == nil {
		p.schedule = schedule
		p.due, p.missed, slotErr = latest(schedule, withinDeadline(p.cron, since(p.cron), p.now), p.now)
	}
	if !recalled { // the Job of a slot goes after its slot has been written
		p.clean(ctx)
	}
	if err := p.observe(ctx); err != nil {
		return 0, err
	}
	if err := p.findMissing(ctx); err != nil {
		return 0, err
	}
	if p.cron.DeletionTimestamp != nil {
		return p.orRetry(0), nil
	}
	if zone := p.cron.Spec.TimeZone; zone != nil {
		if _, err := time.LoadLocation(*zone); err != nil {
			p.warn("UnknownTimeZone", "invalid timeZone: %q: %s", *zone, err)
			return p.orRetry(0), nil
		}
	}
	if s := p.cron.Spec.Suspend; s != nil && *s {
		return p.orRetry(0), nil
	}
	if namesZone(p.cron) {
		p.warn("UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", p.cron.Spec.Schedule)
	}
	switch {
	case parseErr != nil:
		p.warn("UnparseableSchedule", "unparseable schedule: %q : %s", p.cron.Spec.Schedule, parseErr)
		return p.orRetry(0), nil
	case slotErr != nil:
		p.warn("InvalidSchedule", "invalid schedule: %s : %s", p.cron.Spec.Schedule, slotErr)
		return p.orRetry(0), nil
	}
	if err := p.start(ctx); err != nil {
		return 0, err
	}
	return p.orRetry(untilNext(p.schedule, p.cron, p.now)), nil
}

// orRetry returns a time, or an earlier one if a deletion is to be retried.
func (p *pass) orRetry(again time.Duration) time.Duration {
	if p.failed && (again == 0 || again > longestPause) {
		return longestPause
	}
	return again
}

// recall takes over into the status the slots that were started, but could not be written: those in
// memory, and those whose Jobs show them. It reports whether there is one.
func (p *pass) recall() (found bool) {
	found = p.starts.apply(p.cron)
	for _, j := range p.jobs {
		slot, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		if err != nil || j.Name != jobName(p.cron, slot) || slot.After(p.now) || !slot.After(since(p.cron)) {
			continue
		}
		found = true
		addSlot(p.cron, slot, reference(j))
	}
	return found
}

// observe updates the status from the Jobs.
func (p *pass) observe(ctx context.Context) error {
	var live *batchv1.CronJob
	for _, j := range p.jobs {
		active, end := p.active(j.UID), job.Finished(j)
		switch {
		case end == nil && !active:
			if live == nil { // the cache may be older than the Job
				live = &batchv1.CronJob{}
				if err := p.live.Get(ctx, client.ObjectKeyFromObject(p.cron), live); err != nil {
					return err
				}
			}
			if !slices.ContainsFunc(live.Status.Active, hasUID(j.UID)) {
				p.warn("UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
			}
		case end != nil && active:
			p.remove(j.UID)
			p.event("SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, end.Type)
		}
		if at := j.Status.CompletionTime; job.Succeeded(j) && at != nil && (p.cron.Status.LastSuccessfulTime == nil || at.After(p.cron.Status.LastSuccessfulTime.Time)) {
			p.cron.Status.LastSuccessfulTime = at.DeepCopy()
		}
	}
	return nil
}

// findMissing removes Jobs that do not exist from those that are active. The server has the last
// word: the cache may not know a new Job yet.
func (p *pass) findMissing(ctx context.Context) error {
	for _, ref := range slices.Clone(p.cron.Status.Active) {
		j, err := p.find(ctx, ref)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil || j.UID != ref.UID {
			p.event("MissingJob", "Active job went missing: %v", ref.Name)
			p.remove(ref.UID)
		}
	}
	return nil
}

// start starts the slot that is due, unless that is done or the concurrency policy forbids it.
func (p *pass) start(ctx context.Context) error {
	if p.due.IsZero() {
		return nil
	}
	if p.missed > many {
		p.warn("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	running := p.cron.Status.Active
	named := func(r corev1.ObjectReference) bool { return r.Name == jobName(p.cron, p.due) }
	if slices.ContainsFunc(running, named) || p.recorded() {
		return nil
	}
	switch p.cron.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(running) > 0 {
			p.event("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			return nil
		}
	case batchv1.ReplaceConcurrent:
		if err := p.replace(ctx); err != nil {
			return err
		}
	}
	return p.create(ctx)
}

// recorded reports whether the slot that is due is the one that was started last.
func (p *pass) recorded() bool {
	last := p.cron.Status.LastScheduleTime
	return last != nil && last.Time.Equal(p.due)
}

// create creates the Job of the slot that is due. If it exists, an earlier pass has created it, or
// another client has taken its name.
func (p *pass) create(ctx context.Context) error {
	j, err := newJob(p.cron, p.due)
	if err != nil {
		return err
	}
	err = p.client.Create(ctx, j)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the CronJob goes, too
	case apierrors.IsAlreadyExists(err):
		if err := p.live.Get(ctx, client.ObjectKeyFromObject(j), j); err != nil {
			return err
		}
		if !metav1.IsControlledBy(j, p.cron) || p.active(j.UID) {
			return nil
		}
	case err != nil:
		p.warn("FailedCreate", "Error creating job: %v", err)
		return err
	default:
		p.skew.Observe(j.CreationTimestamp.Sub(p.due).Seconds())
		p.event("SuccessfulCreate", "Created job %v", j.Name)
	}
	p.starts.note(p.cron, started{uid: p.cron.UID, slot: p.due, job: reference(j)})
	addSlot(p.cron, p.due, reference(j))
	return nil
}

// replace deletes the Jobs that are active.
func (p *pass) replace(ctx context.Context) error {
	for _, ref := range slices.Clone(p.cron.Status.Active) {
		j, err := p.find(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
			p.remove(ref.UID)
			continue
		case err != nil:
			p.warn("FailedGet", "Get job: %v", err)
			return err
		}
		if err := p.delete(ctx, j); err != nil {
			return fmt.Errorf("could not replace job %s/%s: %w", j.Namespace, j.Name, err)
		}
	}
	return nil
}

// find returns the Job of a reference, from the server if the cache does not know it yet.
func (p *pass) find(ctx context.Context, ref corev1.ObjectReference) (*batchv1.Job, error) {
	if i := slices.IndexFunc(p.jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }); i >= 0 {
		return p.jobs[i], nil
	}
	j := &batchv1.Job{}
	return j, p.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, j)
}

func (p *pass) active(uid types.UID) bool {
	return slices.ContainsFunc(p.cron.Status.Active, hasUID(uid))
}

func (p *pass) remove(uid types.UID) {
	p.cron.Status.Active = slices.DeleteFunc(p.cron.Status.Active, hasUID(uid))
}

func hasUID(uid types.UID) func(corev1.ObjectReference) bool {
	return func(r corev1.ObjectReference) bool { return r.UID == uid }
}

func (p *pass) event(reason, format string, args ...any) {
	p.events.Eventf(p.cron, corev1.EventTypeNormal, reason, format, args...)
}

func (p *pass) warn(reason, format string, args ...any) {
	p.events.Eventf(p.cron, corev1.EventTypeWarning, reason, format, args...)
}
