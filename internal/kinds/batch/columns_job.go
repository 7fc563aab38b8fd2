package batch

import (
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// jobsTable is the table of jobs.
func jobsTable() kind.Table[*batchv1.Job] {
	return kind.Table[*batchv1.Job]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Status", "Status of the job."),
		kind.FieldColumn("Completions", batchv1.JobStatus{}, "succeeded"),
		kind.Column("Duration", "Time required to complete the job."),
		kind.AgeColumn(),
		kind.Wide(kind.Column("Containers", "Names of each container in the template.")),
		kind.Wide(kind.Column("Images", "Images referenced by each container in the template.")),
		kind.Wide(kind.FieldColumn("Selector", batchv1.JobSpec{}, "selector")),
	}, Cells: jobCells}
}

func jobCells(job *batchv1.Job, now time.Time) []any {
	names, images := kind.ContainerCells(job.Spec.Template.Spec.Containers)
	return []any{
		job.Name, jobState(job), jobCompletions(job), jobDuration(job, now), kind.Age(job.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(job.Spec.Selector),
	}
}

func jobState(job *batchv1.Job) string {
	is := func(of batchv1.JobConditionType) bool {
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == of && c.Status == corev1.ConditionTrue })
	}
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
