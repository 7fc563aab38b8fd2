package pods

import corev1 "k8s.io/api/core/v1"

// QOSClass returns the quality of service that follows from the resources of a pod.
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

// qosOfResources returns Guaranteed if requests and limits of cpu and memory are equal, BestEffort
// if there are none, and Burstable otherwise.
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

// worse combines the classes of two parts of a pod.
func worse(a, b corev1.PodQOSClass) corev1.PodQOSClass {
	if a == "" || a == b {
		return b
	}
	return corev1.PodQOSBurstable
}
