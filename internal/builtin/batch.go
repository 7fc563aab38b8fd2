package builtin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/resource"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// batch is the group of what runs to an end.
func batch() []*resource.Definition {
	v1 := batchv1.SchemeGroupVersion
	return []*resource.Definition{
		kind[batchv1.Job]{
			version:       v1,
			plural:        "jobs",
			categories:    []string{"all"},
			defaults:      defaults.Job,
			validate:      validateJob,
			status:        &status[batchv1.Job]{validate: validateJobStatus},
			generation:    []string{"spec"},
			prepareCreate: edited(prepareJob),
			columns: []metav1.TableColumnDefinition{
				nameColumn(),
				column("Status", "Status of the job."),
				fieldColumn("Completions", batchv1.JobStatus{}, "succeeded"),
				column("Duration", "Time required to complete the job."),
				ageColumn(),
				wide(column("Containers", "Names of each container in the template.")),
				wide(column("Images", "Images referenced by each container in the template.")),
				wide(fieldColumn("Selector", batchv1.JobSpec{}, "selector")),
			},
			cells: jobCells,
			selectable: []selectable{{"status.successful", func(obj resource.Tree) string {
				succeeded, _ := get(obj, "status", "succeeded").(int64)
				return fmt.Sprint(succeeded)
			}}},
			hooks: resource.Hooks{
				OrphanByDefault: true,
				OrphanWarning:   "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
				Warnings:        warnOfHostname("Pod names and hostnames"),
			},
		}.definition(),
	}
}

// prepareJob gives the pods of a job labels by which the job finds them, unless
// its selector is somebody else's business. A job without labels has those of
// its pods.
func prepareJob(job *batchv1.Job) {
	spec := &job.Spec
	spec.Scheduling = nil // WorkloadWithJob is off in Kubernetes unless asked for
	if !isTrue(spec.ManualSelector) {
		if spec.Template.Labels == nil {
			spec.Template.Labels = map[string]string{}
		}
		// What is there already and wrong is refused by validation.
		for label, value := range generatedLabels(job) {
			if _, ok := spec.Template.Labels[label]; !ok {
				spec.Template.Labels[label] = value
			}
		}
		if spec.Selector == nil {
			spec.Selector = &metav1.LabelSelector{}
		}
		if spec.Selector.MatchLabels == nil {
			spec.Selector.MatchLabels = map[string]string{}
		}
		if _, ok := spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
			spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
		}
	}
	if len(job.Labels) == 0 {
		job.Labels = maps.Clone(spec.Template.Labels)
	}
}

// The labels of pods of jobs before they had a prefix.
const (
	legacyControllerUIDLabel = "controller-uid"
	legacyJobNameLabel       = "job-name"
)

func generatedLabels(job *batchv1.Job) map[string]string {
	return map[string]string{
		legacyControllerUIDLabel:   string(job.UID),
		legacyJobNameLabel:         job.Name,
		batchv1.ControllerUidLabel: string(job.UID),
		batchv1.JobNameLabel:       job.Name,
	}
}

func jobCells(job *batchv1.Job, now time.Time) []any {
	names, images := containerCells(job.Spec.Template.Spec.Containers)
	return []any{
		job.Name, jobState(job), jobCompletions(job), jobDuration(job, now), age(job.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(job.Spec.Selector),
	}
}

func jobState(job *batchv1.Job) string {
	is := func(of batchv1.JobConditionType) bool { return jobIs(&job.Status, of) }
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func jobCompletions(job *batchv1.Job) string {
	succeeded := job.Status.Succeeded
	switch {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", succeeded, *job.Spec.Completions)
	case job.Spec.Parallelism != nil && *job.Spec.Parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", succeeded, *job.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", succeeded)
}

func jobDuration(job *batchv1.Job, now time.Time) string {
	if job.Status.StartTime == nil {
		return ""
	}
	if job.Status.CompletionTime != nil {
		now = job.Status.CompletionTime.Time
	}
	return duration.HumanDuration(now.Sub(job.Status.StartTime.Time))
}

func jobIs(status *batchv1.JobStatus, of batchv1.JobConditionType) bool {
	return jobHas(status, of, corev1.ConditionTrue)
}

func jobIsNot(status *batchv1.JobStatus, of batchv1.JobConditionType) bool {
	return jobHas(status, of, corev1.ConditionFalse)
}

func jobHas(status *batchv1.JobStatus, of batchv1.JobConditionType, value corev1.ConditionStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == of && c.Status == value })
}
