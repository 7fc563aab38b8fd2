package builtin

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// batch is the group of what runs to an end.
func batch() []row {
	v1 := batchv1.SchemeGroupVersion
	return []row{
		kind[batchv1.Job]{
			version:       v1,
			plural:        "jobs",
			unselectable:  "field label %q not supported for Job",
			pods:          "spec.template.spec",
			categories:    []string{"all"},
			defaults:      defaults.Job,
			validate:      validation.Job,
			status:        &status[batchv1.Job]{validate: validation.JobStatus},
			generation:    []string{"spec"},
			prepareCreate: edited(prepareJob),
			table:         tables.Jobs(),
			selectable: []selectable{{"status.successful", func(obj resource.Tree) string {
				succeeded, _ := get(obj, "status", "succeeded").(int64)
				return fmt.Sprint(succeeded)
			}}},
			hooks: resource.Hooks{
				OrphanByDefault: true,
				OrphanWarning:   "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
				Warnings: warnings(warnOfHostname("Pod names and hostnames"),
					ifNew(warnOfIndexes("spec")), ifNew(warnOfTemplate("spec", "template"))),
			},
		}.row(),
		kind[batchv1.CronJob]{
			version:    v1,
			plural:     "cronjobs",
			pods:       "spec.jobTemplate.spec.template.spec",
			shortNames: []string{"cj"},
			categories: []string{"all"},
			defaults:   fill[batchv1.CronJob],
			validate:   validation.CronJob,
			status:     &status[batchv1.CronJob]{validate: validation.CronJobStatus},
			generation: []string{"spec"},
			// WorkloadWithJob is off in Kubernetes unless asked for.
			prepareCreate: func(obj resource.Tree) { drop(obj, "spec", "jobTemplate", "spec", "scheduling") },
			prepareUpdate: func(obj, _ resource.Tree) { drop(obj, "spec", "jobTemplate", "spec", "scheduling") },
			table:         tables.CronJobs(),
			retired: []another[batchv1.CronJob]{
				in[batchv1.CronJob, batchv1beta1.CronJob](batchv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnings(warnOfHostname("Pod names and hostnames"),
				ifNew(warnOfIndexes("spec", "jobTemplate", "spec")), ifNew(warnOfTemplate("spec", "jobTemplate", "spec", "template")), warnOfTimeZone)},
		}.row(),
	}
}

// warnOfIndexes warns of more completions at once than the status of a job can tell
// apart. The path is that of the spec of jobs.
func warnOfIndexes(path ...string) func(obj, old resource.Tree) []string {
	return func(obj, _ resource.Tree) []string {
		spec, _ := get(obj, path...).(resource.Tree)
		completions, _ := spec["completions"].(int64)
		parallelism, _ := spec["parallelism"].(int64)
		if text(spec, "completionMode") != string(batchv1.IndexedCompletion) || completions <= 100_000 || parallelism <= 10_000 {
			return nil
		}
		return []string{strings.Join(path, ".") + ": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"}
	}
}

// warnOfTimeZone warns, on update, of a time zone in a schedule, which new ones may not have.
func warnOfTimeZone(obj, old resource.Tree) []string {
	if old == nil || !strings.Contains(text(obj, "spec", "schedule"), "TZ") {
		return nil
	}
	return []string{"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"}
}

// prepareJob gives the pods of a job labels by which the job finds them, unless
// its selector is somebody else's business. A job without labels has those of
// its pods.
func prepareJob(job *batchv1.Job) {
	spec := &job.Spec
	spec.Scheduling = nil // WorkloadWithJob is off in Kubernetes unless asked for
	if !ptr.Deref(spec.ManualSelector, false) {
		if spec.Template.Labels == nil {
			spec.Template.Labels = map[string]string{}
		}
		// What is there already and wrong is refused by validation.
		for label, value := range validation.GeneratedJobLabels(job) {
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
