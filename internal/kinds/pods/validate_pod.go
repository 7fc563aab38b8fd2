package pods

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePod(pod, old *corev1.Pod) field.ErrorList {
	all := validateWholePod(pod)
	path, spec := field.NewPath("spec"), &pod.Spec
	if old != nil {
		all = append(all, validatePodAnnotationUpdate(pod, old)...)
		return append(all, validatePodUpdate(spec, &old.Spec, path)...)
	}
	if len(spec.EphemeralContainers) > 0 {
		all = append(all, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
		all = append(all, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	all = append(all, validateSeccompMatches(pod.Annotations, spec, path)...)
	return append(all, validateAppArmorMatches(pod.Annotations, spec, path)...)
}

// validateWholePod returns the errors of a pod that creates and updates have in common.
func validateWholePod(pod *corev1.Pod) field.ErrorList {
	path, spec := field.NewPath("spec"), &pod.Spec
	all := validatePodAnnotations(pod.Annotations, spec, field.NewPath("metadata", "annotations"))
	all = append(all, validatePodSpec(spec, &pod.ObjectMeta, path)...)
	if spec.ServiceAccountName == "" {
		all = append(all, validateNoTokens(spec.Volumes, path.Child("volumes"))...)
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		all = append(all, apivalidation.ValidateNonnegativeField(*grace, path.Child("terminationGracePeriodSeconds"))...)
	}
	for i := range spec.Containers {
		all = append(all, validateTrimmedImage(&spec.Containers[i], path.Child("containers").Index(i))...)
	}
	for i := range spec.InitContainers {
		all = append(all, validateTrimmedImage(&spec.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	return all
}

// validateNoTokens rejects projected tokens in pods without a service account.
func validateNoTokens(volumes []corev1.Volume, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, volume := range volumes {
		if volume.Projected == nil {
			continue
		}
		for j, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				all = append(all, field.Forbidden(path.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return all
}
