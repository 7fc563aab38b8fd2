package apps

import (
	"github.com/kapok-dev/kapok/internal/kinds/pods"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func validateReplicaSet(r, old *appsv1.ReplicaSet) field.ErrorList {
	spec, path := &r.Spec, field.NewPath("spec")
	all := apivalidation.ValidateNonnegativeField(int64(*spec.Replicas), path.Child("replicas"))
	all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	all = append(all, validateWorkloadSelector(spec.Selector, "deployment", path.Child("selector"))...)
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		all = append(all, field.Invalid(path.Child("selector"), spec.Selector, "invalid label selector"))
	} else {
		all = append(all, validateReplicaTemplate(&spec.Template, selector, path.Child("template"))...)
	}
	if old != nil {
		all = append(all, apivalidation.ValidateImmutableField(spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	}
	return all
}

func validateReplicationController(r, old *corev1.ReplicationController) field.ErrorList {
	spec, path := &r.Spec, field.NewPath("spec")
	var all field.ErrorList
	if len(spec.Selector) == 0 {
		all = append(all, field.Required(path.Child("selector"), ""))
	}
	all = append(all, validateControllerTemplate(spec, path.Child("template"))...)
	all = append(all, ValidateCount(spec.Replicas, path.Child("replicas"))...)
	return append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
}

func validateControllerTemplate(spec *corev1.ReplicationControllerSpec, path *field.Path) field.ErrorList {
	template := spec.Template
	if template == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	var all field.ErrorList
	if !labels.SelectorFromSet(spec.Selector).Matches(labels.Set(template.Labels)) {
		all = append(all, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	all = append(all, pods.ValidateTemplate(template, path)...)
	return append(all, pods.ValidateLongRunning(&template.Spec, "ReplicationController", path.Child("spec"))...)
}

func validatePodTemplate(t, _ *corev1.PodTemplate) field.ErrorList {
	return pods.ValidateTemplate(&t.Template, field.NewPath("template"))
}

func validateReplicaSetStatus(r, _ *appsv1.ReplicaSet) field.ErrorList {
	status := &r.Status
	return validateReplicaCounts(status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas, status.ObservedGeneration, status.TerminatingReplicas)
}

func validateReplicationControllerStatus(r, _ *corev1.ReplicationController) field.ErrorList {
	status := &r.Status
	return validateReplicaCounts(status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas, status.ObservedGeneration, nil)
}

func validateReplicaCounts(replicas, labelled, ready, available int32, generation int64, terminating *int32) field.ErrorList {
	path := field.NewPath("status")
	all := pods.ValidateCounts(path, []pods.Count{
		{Name: "replicas", Value: int64(replicas)}, {Name: "fullyLabeledReplicas", Value: int64(labelled)}, {Name: "readyReplicas", Value: int64(ready)},
		{Name: "availableReplicas", Value: int64(available)}, {Name: "observedGeneration", Value: generation}, {Name: "terminatingReplicas", Value: int64(ptr.Deref(terminating, 0))},
	})
	all = append(all, pods.ValidateParts(path, replicas, []pods.Part{{Name: "fullyLabeledReplicas", Value: labelled}, {Name: "readyReplicas", Value: ready}, {Name: "availableReplicas", Value: available}})...)
	if available > ready {
		all = append(all, field.Invalid(path.Child("availableReplicas"), available, "cannot be greater than readyReplicas"))
	}
	return all
}
