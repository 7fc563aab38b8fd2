package batch

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateJobStatus returns the errors of a status. Most rules apply to changes only: a status may
// break them after a change of the spec, and its controller must be able to correct it.
func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	path := field.NewPath("status")
	all := validateJobCounts(&job.Status, path)
	all = append(all, validateJobIndexes(job, old, path)...)
	all = append(all, validateJobConditions(job, old, path)...)
	all = append(all, validateJobTimes(job, old, path)...)
	all = append(all, validateFinishedJob(job, old, path)...)
	return append(all, validateJobProgress(job, old, path)...)
}

func validateJobCounts(status *batchv1.JobStatus, path *field.Path) field.ErrorList {
	all := apps.ValidateCount(&status.Active, path.Child("active"))
	all = append(all, apps.ValidateCount(&status.Succeeded, path.Child("succeeded"))...)
	all = append(all, apps.ValidateCount(&status.Failed, path.Child("failed"))...)
	all = append(all, apps.ValidateCount(status.Ready, path.Child("ready"))...)
	all = append(all, apps.ValidateCount(status.Terminating, path.Child("terminating"))...)
	if uncounted := status.UncountedTerminatedPods; uncounted != nil {
		seen := map[types.UID]bool{}
		for _, list := range []struct {
			name string
			uids []types.UID
		}{{"succeeded", uncounted.Succeeded}, {"failed", uncounted.Failed}} {
			for i, uid := range list.uids {
				at := path.Child("uncountedTerminatedPods", list.name).Index(i)
				if uid == "" {
					all = append(all, field.Invalid(at, uid, "must not be empty"))
				} else if seen[uid] {
					all = append(all, field.Duplicate(at, uid))
				}
				seen[uid] = true
			}
		}
	}
	return all
}

func validateJobIndexes(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	var all field.ErrorList
	status, spec := &job.Status, &job.Spec
	completedChanged := status.CompletedIndexes != old.Status.CompletedIndexes
	failedChanged := !ptr.Equal(status.FailedIndexes, old.Status.FailedIndexes)
	if !completedChanged && !failedChanged {
		return nil
	}
	limit := ptr.Deref(spec.Completions, 0)
	completed, completedErr := parseIndexes(status.CompletedIndexes, limit)
	failed, failedErr := parseIndexes(ptr.Deref(status.FailedIndexes, ""), limit)
	if completedChanged && spec.Completions != nil && completedErr != nil {
		all = append(all, field.Invalid(path.Child("completedIndexes"), status.CompletedIndexes, "error parsing completedIndexes: "+completedErr.Error()))
	}
	if failedChanged && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && failedErr != nil {
		all = append(all, field.Invalid(path.Child("failedIndexes"), *status.FailedIndexes, "error parsing failedIndexes: "+failedErr.Error()))
	}
	if completedChanged && status.CompletedIndexes != "" && *spec.CompletionMode != batchv1.IndexedCompletion {
		all = append(all, field.Invalid(path.Child("completedIndexes"), status.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if failedChanged && status.FailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		all = append(all, field.Invalid(path.Child("failedIndexes"), *status.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if index, ok := completed.overlap(failed); ok && spec.Completions != nil {
		all = append(all, field.Invalid(path.Child("failedIndexes"), *status.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index)))
	}
	return all
}

// jobConditions are the conditions that end a job.
type jobConditions struct{ complete, failed, failureTarget, successCriteriaMet bool }

func conditionsOf(status *batchv1.JobStatus) jobConditions {
	return jobConditions{
		complete:           jobIs(status, batchv1.JobComplete),
		failed:             jobIs(status, batchv1.JobFailed),
		failureTarget:      jobIs(status, batchv1.JobFailureTarget),
		successCriteriaMet: jobIs(status, batchv1.JobSuccessCriteriaMet),
	}
}

func (c jobConditions) finished() bool { return c.complete || c.failed }

func validateJobConditions(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	var all field.ErrorList
	now, was := conditionsOf(&job.Status), conditionsOf(&old.Status)
	refuse := func(when bool, message string) {
		if when {
			all = append(all, field.Invalid(path.Child("conditions"), field.OmitValueType{}, message))
		}
	}
	failedIndexesChanged := !ptr.Equal(job.Status.FailedIndexes, old.Status.FailedIndexes)
	completeChanged, failedChanged := now.complete != was.complete, now.failed != was.failed
	refuse((completeChanged || failedChanged) && now.complete && now.failed,
		"cannot set Complete=True and Failed=true conditions")
	refuse((completeChanged || now.failureTarget != was.failureTarget) && now.complete && now.failureTarget,
		"cannot set Complete=True and FailureTarget=true conditions")
	refuse((failedChanged || failedIndexesChanged) && now.failed && !now.failureTarget,
		"cannot set Failed=True condition without the FailureTarget=true condition")
	refuse((completeChanged || now.successCriteriaMet != was.successCriteriaMet) && now.complete && !now.successCriteriaMet,
		"cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	refuse(now.successCriteriaMet && now.failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	refuse(now.successCriteriaMet && now.failureTarget, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	refuse(job.Spec.SuccessPolicy != nil && !now.successCriteriaMet && now.complete,
		"cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	refuse(was.failed && !now.failed, "cannot disable the terminal Failed=True condition")
	refuse(was.complete && !now.complete, "cannot disable the terminal Complete=True condition")
	refuse(was.failureTarget && !now.failureTarget, "cannot disable the terminal FailureTarget=True condition")
	refuse(was.successCriteriaMet && !now.successCriteriaMet, "cannot disable the SuccessCriteriaMet=True condition")
	refuse(was.complete && !was.successCriteriaMet && now.successCriteriaMet,
		"cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	return all
}

func validateJobTimes(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	var all field.ErrorList
	now, was := &job.Status, &old.Status
	complete, wasComplete := jobIs(now, batchv1.JobComplete), jobIs(was, batchv1.JobComplete)
	startChanged, endChanged := !sameTime(now.StartTime, was.StartTime), !sameTime(now.CompletionTime, was.CompletionTime)
	start, end := path.Child("startTime"), path.Child("completionTime")
	if complete != wasComplete || endChanged {
		if now.CompletionTime != nil && !complete {
			all = append(all, field.Invalid(end, now.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
		}
		if now.CompletionTime == nil && complete {
			all = append(all, field.Required(end, "completionTime is required for Complete jobs"))
		}
	}
	if (startChanged || endChanged) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		all = append(all, field.Invalid(end, now.CompletionTime, "must be equal to or after `startTime`"))
	}
	if now.CompletionTime != nil && was.CompletionTime != nil && endChanged {
		all = append(all, field.Invalid(end, now.CompletionTime, "field is immutable"))
	}
	resuming := jobIs(was, batchv1.JobSuspended) && jobIsNot(now, batchv1.JobSuspended)
	if startChanged && !resuming && was.StartTime != nil && !rule.IsTrue(job.Spec.Suspend) {
		all = append(all, field.Invalid(start, now.StartTime, "field is immutable for unsuspended job once set"))
	}
	return all
}

// validateFinishedJob rejects active and uncounted pods in a finished job.
func validateFinishedJob(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	now, was := &job.Status, &old.Status
	finished := conditionsOf(now).finished()
	changed := finished != conditionsOf(was).finished()
	if !finished {
		return nil
	}
	var all field.ErrorList
	if (changed || now.Active != was.Active) && now.Active > 0 {
		all = append(all, field.Invalid(path.Child("active"), now.Active, "active>0 is invalid for finished job"))
	}
	neverStarted := rule.IsTrue(job.Spec.Suspend) && job.Spec.Completions != nil && *job.Spec.Completions == 0
	if (changed || !sameTime(now.StartTime, was.StartTime)) && !neverStarted && now.StartTime == nil {
		all = append(all, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if uncounted := now.UncountedTerminatedPods; uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		if changed || !equality.Semantic.DeepEqual(uncounted, was.UncountedTerminatedPods) {
			all = append(all, field.Invalid(path.Child("uncountedTerminatedPods"), rule.AsInternal(uncounted), "must be empty for finished job"))
		}
	}
	if (changed || !ptr.Equal(now.Terminating, was.Terminating)) && ptr.Deref(now.Terminating, 0) > 0 {
		all = append(all, field.Invalid(path.Child("terminating"), now.Terminating, "terminating>0 is invalid for finished job"))
	}
	return all
}

// validateJobProgress rejects decreasing counters.
func validateJobProgress(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	var all field.ErrorList
	now, was := &job.Status, &old.Status
	if (!ptr.Equal(now.Ready, was.Ready) || now.Active != was.Active) && now.Ready != nil && *now.Ready > now.Active {
		all = append(all, field.Invalid(path.Child("ready"), *now.Ready, "cannot set more ready pods than active"))
	}
	if now.Failed < was.Failed {
		all = append(all, field.Invalid(path.Child("failed"), now.Failed, "cannot decrease the failed counter"))
	}
	// Scaling an indexed job down removes completed indexes.
	scalable := *job.Spec.CompletionMode == batchv1.IndexedCompletion && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
	if now.Succeeded < was.Succeeded && !scalable {
		all = append(all, field.Invalid(path.Child("succeeded"), now.Succeeded, "cannot decrease the succeeded counter"))
	}
	return all
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}

func jobIsNot(status *batchv1.JobStatus, of batchv1.JobConditionType) bool {
	return jobHas(status, of, corev1.ConditionFalse)
}

func jobIs(status *batchv1.JobStatus, of batchv1.JobConditionType) bool {
	return jobHas(status, of, corev1.ConditionTrue)
}

func jobHas(status *batchv1.JobStatus, of batchv1.JobConditionType, value corev1.ConditionStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == of && c.Status == value })
}
