package batch

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Kinds returns the kinds of group batch.
func Kinds() []kind.Row {
	v1 := batchv1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*batchv1.Job]{
			Version:       v1,
			Plural:        "jobs",
			Unselectable:  "field label %q not supported for Job",
			Pods:          "spec.template.spec",
			Categories:    []string{"all"},
			Defaults:      defaultJob,
			Validate:      validateJob,
			Status:        &kind.Status[*batchv1.Job]{Validate: validateJobStatus},
			Generation:    []string{"spec"},
			PrepareCreate: kind.Edited(prepareJob),
			Table:         jobsTable(),
			Selectable: []kind.Selectable{{Label: "status.successful", Reads: []string{"status.succeeded"}, Value: func(obj resource.Tree) string {
				succeeded, _ := kind.Get(obj, "status", "succeeded").(int64)
				return fmt.Sprint(succeeded)
			}}},
			Strategy: resource.Strategy{
				Warnings: kind.Warnings(pods.WarnOfHostname("Pod names and hostnames"),
					kind.IfNew(warnOfIndexes("spec")), kind.IfNew(pods.WarnOfTemplate("spec", "template"))),
			},
			Deletion: resource.Deletion{
				OrphanByDefault: true,
				OrphanWarning:   "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
			},
		}.Row(),
		kind.Kind[*batchv1.CronJob]{
			Version:    v1,
			Plural:     "cronjobs",
			Pods:       "spec.jobTemplate.spec.template.spec",
			ShortNames: []string{"cj"},
			Categories: []string{"all"},
			Filled:     true,
			Validate:   validateCronJob,
			Status:     &kind.Status[*batchv1.CronJob]{Validate: validateCronJobStatus},
			Generation: []string{"spec"},
			// WorkloadWithJob is off by default in Kubernetes.
			PrepareCreate: func(obj resource.Tree) { kind.Drop(obj, "spec", "jobTemplate", "spec", "scheduling") },
			PrepareUpdate: func(obj, _ resource.Tree) { kind.Drop(obj, "spec", "jobTemplate", "spec", "scheduling") },
			Table:         cronJobsTable(),
			Retired: []kind.Another[*batchv1.CronJob]{
				kind.In[*batchv1.CronJob, *batchv1beta1.CronJob](batchv1beta1.SchemeGroupVersion),
			},
			Strategy: resource.Strategy{Warnings: kind.Warnings(pods.WarnOfHostname("Pod names and hostnames"),
				kind.IfNew(warnOfIndexes("spec", "jobTemplate", "spec")), kind.IfNew(pods.WarnOfTemplate("spec", "jobTemplate", "spec", "template")), warnOfTimeZone),
			},
		}.Row(),
	}
}

// warnOfIndexes warns of more parallel completions than the status of a job can track. The path is
// that of the job's spec.
func warnOfIndexes(path ...string) func(obj, old resource.Tree) []string {
	return func(obj, _ resource.Tree) []string {
		spec, _ := kind.Get(obj, path...).(resource.Tree)
		completions, _ := spec["completions"].(int64)
		parallelism, _ := spec["parallelism"].(int64)
		if kind.Text(spec, "completionMode") != string(batchv1.IndexedCompletion) || completions <= 100_000 || parallelism <= 10_000 {
			return nil
		}
		return []string{strings.Join(path, ".") + ": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"}
	}
}

// warnOfTimeZone warns, on update, of a time zone in the schedule, which validation rejects in new
// objects.
func warnOfTimeZone(obj, old resource.Tree) []string {
	if old == nil || !strings.Contains(kind.Text(obj, "spec", "schedule"), "TZ") {
		return nil
	}
	return []string{"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"}
}

// prepareJob sets the selector and the pod labels of a job, unless it has a manual selector. A job
// without labels gets those of its pods.
func prepareJob(job *batchv1.Job) {
	spec := &job.Spec
	spec.Scheduling = nil // WorkloadWithJob is off by default in Kubernetes
	if !ptr.Deref(spec.ManualSelector, false) {
		if spec.Template.Labels == nil {
			spec.Template.Labels = map[string]string{}
		}
		// Validation rejects wrong labels.
		for label, value := range generatedJobLabels(job) {
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
