package batch

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// cronJobsTable is the table of cron jobs.
func cronJobsTable() kind.Table[*batchv1.CronJob] {
	spec, status := batchv1.CronJobSpec{}, batchv1.CronJobStatus{}
	return kind.Table[*batchv1.CronJob]{Columns: append([]metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Schedule", spec, "schedule"),
		kind.FieldColumn("Timezone", spec, "timeZone"),
		kind.Typed("boolean", kind.FieldColumn("Suspend", spec, "suspend")),
		kind.Typed("integer", kind.FieldColumn("Active", status, "active")),
		kind.FieldColumn("Last Schedule", status, "lastScheduleTime"),
		kind.AgeColumn(),
	}, kind.WorkloadColumns(kind.FieldColumn("Selector", batchv1.JobSpec{}, "selector"))...), Cells: cronJobCells}
}

func cronJobCells(c *batchv1.CronJob, now time.Time) []any {
	last := "<none>"
	if c.Status.LastScheduleTime != nil {
		last = kind.Since(c.Status.LastScheduleTime.Time, now)
	}
	job := &c.Spec.JobTemplate.Spec
	names, images := kind.TemplateCells(&job.Template)
	return []any{
		c.Name, c.Spec.Schedule, ptr.Deref(c.Spec.TimeZone, "<none>"), truth(c.Spec.Suspend), int64(len(c.Status.Active)), last,
		kind.Age(c.ObjectMeta, now), names, images, metav1.FormatLabelSelector(job.Selector),
	}
}

// truth returns the cell of an optional bool.
func truth(b *bool) string {
	switch {
	case b == nil:
		return "<unset>"
	case *b:
		return "True"
	}
	return "False"
}
