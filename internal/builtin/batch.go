package builtin

import (
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	batchv1 "k8s.io/api/batch/v1"
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
				Warnings:        warnOfHostname("Pod names and hostnames"),
			},
		}.row(),
	}
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
