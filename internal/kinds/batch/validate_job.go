package batch

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Limits of indexed jobs, which bound the lists of completed and failed indexes.
const (
	maxIndexedParallelism = 100_000
	maxFailedIndexes      = 100_000
	manyCompletions       = 100_000 // above it, parallelism and failures have lower limits
	maxManyParallelism    = 10_000
	maxManyFailedIndexes  = 10_000
	maxManagedBy          = 63
)

func validateJob(job, old *batchv1.Job) field.ErrorList {
	spec, path := &job.Spec, field.NewPath("spec")
	var all field.ErrorList
	if old == nil {
		all = append(all, validateGeneratedSelector(job, path)...)
	}
	all = append(all, validateJobSpec(spec, path)...)
	if spec.Selector == nil {
		all = append(all, field.Required(path.Child("selector"), ""))
	} else {
		all = append(all, metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		all = append(all, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if old != nil {
		all = append(all, validateJobUpdate(spec, old, path)...)
	}
	return append(all, validateJobHostnames(job)...)
}

// validateGeneratedSelector requires the labels and selector that are generated for a job.
func validateGeneratedSelector(job *batchv1.Job, path *field.Path) field.ErrorList {
	if rule.IsTrue(job.Spec.ManualSelector) || job.Spec.Selector == nil {
		return nil
	}
	var all field.ErrorList
	generated := generatedJobLabels(job)
	for _, label := range []string{legacyControllerUIDLabel, legacyJobNameLabel, batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		at := path.Child("template", "metadata", "labels").Key(label)
		must := fmt.Sprintf("must be '%s'", generated[label])
		if value, ok := job.Spec.Template.Labels[label]; !ok {
			all = append(all, field.Required(at, must))
		} else if value != generated[label] {
			all = append(all, field.Invalid(at, job.Spec.Template.Labels, must))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err == nil && !selector.Matches(labels.Set(generated)) {
		all = append(all, field.Invalid(path.Child("selector"), job.Spec.Selector, "`selector` not auto-generated"))
	}
	return all
}

func validateJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	all := apps.ValidateCount(spec.Parallelism, path.Child("parallelism"))
	all = append(all, apps.ValidateCount(spec.Completions, path.Child("completions"))...)
	all = append(all, apps.ValidateCount(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	all = append(all, apps.ValidateCount(spec.BackoffLimit, path.Child("backoffLimit"))...)
	all = append(all, apps.ValidateCount(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	all = append(all, apps.ValidateCount(spec.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	all = append(all, apps.ValidateCount(spec.MaxFailedIndexes, path.Child("maxFailedIndexes"))...)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		all = append(all, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := spec.ManagedBy; by != nil {
		all = append(all, validation.IsDomainPrefixedPath(path.Child("managedBy"), *by)...)
		if len(*by) > maxManagedBy {
			all = append(all, field.TooLong(path.Child("managedBy"), "", maxManagedBy))
		}
	}
	// The job templates of cron jobs have no defaults.
	switch mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion); mode {
	case batchv1.IndexedCompletion:
		all = append(all, validateIndexedJob(spec, path)...)
	case batchv1.NonIndexedCompletion:
		for _, n := range []struct {
			name  string
			value *int32
		}{{"backoffLimitPerIndex", spec.BackoffLimitPerIndex}, {"maxFailedIndexes", spec.MaxFailedIndexes}} {
			if n.value != nil {
				all = append(all, field.Invalid(path.Child(n.name), *n.value, "requires indexed completion mode"))
			}
		}
	default:
		all = append(all, field.NotSupported(path.Child("completionMode"), mode,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	all = append(all, validateJobPolicies(spec, path)...)
	all = append(all, pods.ValidateTemplate(&spec.Template, path.Child("template"))...)
	return append(all, validateJobRestartPolicy(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func validateIndexedJob(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	completions, parallelism, failed := spec.Completions, ptr.Deref(spec.Parallelism, 0), spec.MaxFailedIndexes
	if completions == nil {
		return field.ErrorList{field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion))}
	}
	if parallelism > maxIndexedParallelism {
		all = append(all, field.Invalid(path.Child("parallelism"), parallelism,
			fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxIndexedParallelism, batchv1.IndexedCompletion)))
	}
	if failed != nil && *failed > *completions {
		all = append(all, field.Invalid(path.Child("maxFailedIndexes"), *failed, "must be less than or equal to completions"))
	}
	if failed != nil && *failed > maxFailedIndexes {
		all = append(all, field.Invalid(path.Child("maxFailedIndexes"), *failed, fmt.Sprintf("must be less than or equal to %d", maxFailedIndexes)))
	}
	if *completions <= manyCompletions || spec.BackoffLimitPerIndex == nil {
		return all
	}
	const limit = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	if failed == nil {
		all = append(all, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	}
	if parallelism > maxManyParallelism {
		all = append(all, field.Invalid(path.Child("parallelism"), parallelism, fmt.Sprintf(limit, maxManyParallelism, manyCompletions)))
	}
	if failed != nil && *failed > maxManyFailedIndexes {
		all = append(all, field.Invalid(path.Child("maxFailedIndexes"), *failed, fmt.Sprintf(limit, maxManyFailedIndexes, manyCompletions)))
	}
	return all
}

// validateJobRestartPolicy rejects pods that always restart.
func validateJobRestartPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case corev1.RestartPolicyNever:
	case corev1.RestartPolicyOnFailure:
		if spec.PodFailurePolicy != nil {
			return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
		}
	default:
		return field.ErrorList{field.NotSupported(path, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	}
	return nil
}

// validateJobHostnames requires the names of an indexed job's pods to be valid host names.
func validateJobHostnames(job *batchv1.Job) field.ErrorList {
	if *job.Spec.CompletionMode != batchv1.IndexedCompletion || job.Spec.Completions == nil || *job.Spec.Completions <= 0 {
		return nil
	}
	last := fmt.Sprintf("%s-%d", job.Name, *job.Spec.Completions-1)
	if len(validation.IsDNS1123Label(last)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), job.Name, "will not able to create pod with invalid DNS label: "+last)}
}

func validateJobUpdate(spec *batchv1.JobSpec, old *batchv1.Job, path *field.Path) field.ErrorList {
	was := &old.Spec
	all := validateCompletionsUpdate(spec, was, path.Child("completions"))
	all = append(all, apivalidation.ValidateImmutableField(spec.Selector, was.Selector, path.Child("selector"))...)
	all = append(all, validateJobTemplateUpdate(spec, old, path)...)
	all = append(all, apivalidation.ValidateImmutableField(spec.CompletionMode, was.CompletionMode, path.Child("completionMode"))...)
	all = append(all, rule.ValidateImmutable(spec.PodFailurePolicy, was.PodFailurePolicy, path.Child("podFailurePolicy"))...)
	all = append(all, apivalidation.ValidateImmutableField(spec.BackoffLimitPerIndex, was.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	all = append(all, apivalidation.ValidateImmutableField(spec.ManagedBy, was.ManagedBy, path.Child("managedBy"))...)
	return append(all, rule.ValidateImmutable(spec.SuccessPolicy, was.SuccessPolicy, path.Child("successPolicy"))...)
}

// validateCompletionsUpdate lets completions change only in indexed jobs, together with
// parallelism.
func validateCompletionsUpdate(spec, was *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if *spec.CompletionMode != batchv1.IndexedCompletion {
		return apivalidation.ValidateImmutableField(spec.Completions, was.Completions, path)
	}
	if spec.Completions == nil || ptr.Equal(spec.Completions, was.Completions) || *spec.Completions == *spec.Parallelism {
		return nil
	}
	return field.ErrorList{field.Invalid(path, spec.Completions, "can only be modified in tandem with spec.parallelism")}
}

// validateJobTemplateUpdate rejects changes of the template, except for the scheduling and
// resources of a suspended job without pods.
func validateJobTemplateUpdate(spec *batchv1.JobSpec, old *batchv1.Job, path *field.Path) field.ErrorList {
	return TemplateFeatures{Scheduling: true, Resources: true}.validateUpdate(spec, old, path)
}

// TemplateFeatures are what can change in the template of a suspended job without pods. Without
// Scheduling, the scheduling of a job that has never run can.
type TemplateFeatures struct{ Scheduling, Resources bool }

// Revalidate returns errors of an update with those that the features give instead of those that
// all features give.
func (f TemplateFeatures) Revalidate(errs field.ErrorList, job, old *batchv1.Job) field.ErrorList {
	path := field.NewPath("spec")
	for _, e := range validateJobTemplateUpdate(&job.Spec, old, path) {
		errs = slices.DeleteFunc(errs, func(other *field.Error) bool { return other.Field == e.Field && other.Detail == e.Detail })
	}
	return append(errs, f.validateUpdate(&job.Spec, old, path)...)
}

func (f TemplateFeatures) validateUpdate(spec *batchv1.JobSpec, old *batchv1.Job, path *field.Path) field.ErrorList {
	template, was := &spec.Template, old.Spec.Template.DeepCopy()
	suspended := rule.IsTrue(old.Spec.Suspend)
	notStarted := suspended && old.Status.StartTime == nil
	idle := suspended && old.Status.Active == 0 && (notStarted || jobIs(&old.Status, batchv1.JobSuspended))
	if f.Scheduling && idle || !f.Scheduling && notStarted {
		allowScheduling(template, was)
	}
	if !f.Resources || !idle {
		return rule.ValidateImmutable(template, was, path.Child("template"))
	}
	allowResources(template.Spec.Containers, was.Spec.Containers)
	allowResources(template.Spec.InitContainers, was.Spec.InitContainers)
	return rule.ValidateImmutable(template.Spec, was.Spec, path.Child("template.spec"))
}

func allowScheduling(template, was *corev1.PodTemplateSpec) {
	now := template.Spec.Affinity
	switch {
	case was.Spec.Affinity != nil && now != nil:
		was.Spec.Affinity.NodeAffinity = now.NodeAffinity
	case now != nil:
		was.Spec.Affinity = &corev1.Affinity{NodeAffinity: now.NodeAffinity}
	case was.Spec.Affinity != nil:
		was.Spec.Affinity.NodeAffinity = nil
		if *was.Spec.Affinity == (corev1.Affinity{}) {
			was.Spec.Affinity = nil
		}
	}
	was.Spec.NodeSelector = template.Spec.NodeSelector
	was.Spec.Tolerations = template.Spec.Tolerations
	was.Spec.SchedulingGates = template.Spec.SchedulingGates
	was.Annotations, was.Labels = template.Annotations, template.Labels
}

func allowResources(containers, was []corev1.Container) {
	if len(containers) != len(was) {
		return
	}
	for i := range containers {
		if containers[i].Name == was[i].Name {
			was[i].Resources = containers[i].Resources
		}
	}
}

// The labels of a job's pods from before they had a prefix.
const (
	legacyControllerUIDLabel = "controller-uid"
	legacyJobNameLabel       = "job-name"
)

// generatedJobLabels returns the labels that select the pods of a job without a manual selector.
func generatedJobLabels(job *batchv1.Job) map[string]string {
	return map[string]string{
		legacyControllerUIDLabel:   string(job.UID),
		legacyJobNameLabel:         job.Name,
		batchv1.ControllerUidLabel: string(job.UID),
		batchv1.JobNameLabel:       job.Name,
	}
}
