package tables

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// CronJobs is the table of cron jobs.
func CronJobs() Table[batchv1.CronJob] {
	spec, status := batchv1.CronJobSpec{}, batchv1.CronJobStatus{}
	return Table[batchv1.CronJob]{Columns: append([]metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Schedule", spec, "schedule"),
		fieldColumn("Timezone", spec, "timeZone"),
		typed("boolean", fieldColumn("Suspend", spec, "suspend")),
		typed("integer", fieldColumn("Active", status, "active")),
		fieldColumn("Last Schedule", status, "lastScheduleTime"),
		ageColumn(),
	}, workloadColumns(fieldColumn("Selector", batchv1.JobSpec{}, "selector"))...), Cells: cronJobCells}
}

func cronJobCells(c *batchv1.CronJob, now time.Time) []any {
	last := "<none>"
	if c.Status.LastScheduleTime != nil {
		last = since(c.Status.LastScheduleTime.Time, now)
	}
	job := &c.Spec.JobTemplate.Spec
	names, images := templateCells(&job.Template)
	return []any{
		c.Name, c.Spec.Schedule, ptr.Deref(c.Spec.TimeZone, "<none>"), truth(c.Spec.Suspend), int64(len(c.Status.Active)), last,
		age(c.ObjectMeta, now), names, images, metav1.FormatLabelSelector(job.Selector),
	}
}

// truth is the cell of a decision that may be missing.
func truth(b *bool) string {
	switch {
	case b == nil:
		return "<unset>"
	case *b:
		return "True"
	}
	return "False"
}
