package validation

import (
	corev1 "k8s.io/api/core/v1"
)

// QOSClass is the quality of service that the resources of a pod amount to.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if hasPodResources(spec) {
		return qosOfResources(spec.Resources)
	}
	class := corev1.PodQOSClass("")
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			class = worse(class, qosOfResources(&containers[i].Resources))
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

// qosOfResources is Guaranteed if cpu and memory are limited and requested alike,
// BestEffort if neither is mentioned, and else Burstable.
func qosOfResources(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	class := corev1.PodQOSClass("")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return corev1.PodQOSBurstable
		case request.IsZero():
			class = worse(class, corev1.PodQOSBestEffort)
		default:
			class = worse(class, corev1.PodQOSGuaranteed)
		}
	}
	return class
}

// worse joins the classes of two parts of a pod.
func worse(a, b corev1.PodQOSClass) corev1.PodQOSClass {
	if a == "" || a == b {
		return b
	}
	return corev1.PodQOSBurstable
}
