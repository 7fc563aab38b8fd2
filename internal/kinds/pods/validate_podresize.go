package pods

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodEphemeralContainers returns the errors of a pod with added ephemeral containers.
// Existing ones must not change.
func validatePodEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	all := validateWholePod(pod)
	all = append(all, validatePodAnnotationUpdate(pod, old)...)
	if isMirror(old) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	path := field.NewPath("spec", "ephemeralContainers")
	byName := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		byName[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		switch now := byName[before.Name]; {
		case now == nil:
			all = append(all, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
		case !equality.Semantic.DeepEqual(before, now):
			all = append(all, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name,
				diff.Diff(rule.AsInternal(before), rule.AsInternal(now)))))
		}
	}
	return all
}

// validatePodResize returns the errors of a pod whose resources change while it runs: only cpu and
// memory may change, and the quality of service must stay the same.
func validatePodResize(pod, old *corev1.Pod) field.ErrorList {
	all := validateWholePod(pod)
	path := field.NewPath("spec")
	switch {
	case isMirror(old):
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	case isWindows(&old.Spec):
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if cmp.Or(old.Status.QOSClass, QOSClass(&old.Spec)) != QOSClass(&pod.Spec) {
		all = append(all, field.Invalid(path, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizable(old) {
		all = append(all, field.Forbidden(path, "Pod running on node without support for resize"))
	}
	rest := pod.Spec.DeepCopy()
	if hasPodResources(&old.Spec) || hasPodResources(&pod.Spec) {
		all = append(all, validatePodResourcesResize(rest, &pod.Spec, &old.Spec, path)...)
	}
	if problems := validateSameContainers(&pod.Spec, &old.Spec, path); len(problems) > 0 {
		return append(all, problems...)
	}
	all = append(all, validateNoResourceRemoved(pod.Spec.InitContainers, old.Spec.InitContainers, path.Child("initContainers"))...)
	all = append(all, validateNoResourceRemoved(pod.Spec.Containers, old.Spec.Containers, path.Child("containers"))...)
	for i := range rest.Containers {
		c, before := &rest.Containers[i], &old.Spec.Containers[i]
		keepComputeResources(&c.Resources, &before.Resources)
		if !equality.Semantic.DeepEqual(c, before) {
			all = append(all, field.Forbidden(path, "only cpu and memory resources are mutable"))
		}
	}
	for i := range rest.InitContainers {
		c, before := &rest.InitContainers[i], &old.Spec.InitContainers[i]
		at := path.Child("initContainers").Index(i)
		changed := !equality.Semantic.DeepEqual(c, before)
		keepComputeResources(&c.Resources, &before.Resources)
		if !equality.Semantic.DeepEqual(c, before) {
			all = append(all, field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		if changed && !isSidecar(c) {
			for _, policy := range c.ResizePolicy {
				if policy.RestartPolicy == corev1.RestartContainer {
					all = append(all, field.Forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
				}
			}
		}
	}
	if !equality.Semantic.DeepEqual(pod.Spec.Volumes, old.Spec.Volumes) {
		all = append(all, field.Forbidden(path.Child("volumes"),
			"volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled"))
	}
	if len(all) == 0 && !equality.Semantic.DeepEqual(rest, &old.Spec) {
		all = append(all, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return all
}

// resizable reports whether the pod's node supports resizing. A pod that does not run yet counts as
// resizable.
func resizable(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

func hasPodResources(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

// validatePodResourcesResize returns the errors of changed pod-level resources, and restores the
// old ones in rest.
func validatePodResourcesResize(rest, now, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	at := path.Child("resources")
	if old.Resources != nil {
		if now.Resources == nil {
			return field.ErrorList{field.Forbidden(at, "pod-level resources cannot be removed")}
		}
		if removed(now.Resources.Requests, old.Resources.Requests) {
			all = append(all, field.Forbidden(at.Child("requests"), "pod-level resource requests cannot be removed"))
		}
		if removed(now.Resources.Limits, old.Resources.Limits) {
			all = append(all, field.Forbidden(at.Child("limits"), "pod-level resource limits cannot be removed"))
		}
		keepComputeResources(rest.Resources, old.Resources)
	} else {
		keepComputeResources(rest.Resources, &corev1.ResourceRequirements{})
		if len(rest.Resources.Requests)+len(rest.Resources.Limits)+len(rest.Resources.Claims) == 0 {
			rest.Resources = nil
		}
	}
	if !equality.Semantic.DeepEqual(rest.Resources, old.Resources) {
		all = append(all, field.Forbidden(path, "only cpu and memory resources are mutable at pod-level"))
	}
	return all
}

// validateSameContainers rejects a resize that adds, removes or reorders containers.
func validateSameContainers(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, list := range []struct {
		name     string
		now, old []corev1.Container
	}{{"containers", spec.Containers, old.Containers}, {"initContainers", spec.InitContainers, old.InitContainers}} {
		at := path.Child(list.name)
		if len(list.now) != len(list.old) {
			all = append(all, field.Forbidden(at, list.name+" may not be added or removed on resize"))
			continue
		}
		for i := range list.now {
			if list.now[i].Name != list.old[i].Name {
				all = append(all, field.Forbidden(at.Index(i).Child("name"), list.name+" may not be renamed or reordered on resize"))
			}
		}
	}
	return all
}

func validateNoResourceRemoved(now, old []corev1.Container, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range old {
		at := path.Index(i).Child("resources")
		if removed(now[i].Resources.Requests, old[i].Resources.Requests) {
			all = append(all, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
		}
		if removed(now[i].Resources.Limits, old[i].Resources.Limits) {
			all = append(all, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
		}
	}
	return all
}

func removed(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// keepComputeResources restores the old values of cpu and memory.
func keepComputeResources(r, old *corev1.ResourceRequirements) {
	r.Limits = withCompute(r.Limits, old.Limits)
	r.Requests = withCompute(r.Requests, old.Requests)
}

func withCompute(list, old corev1.ResourceList) corev1.ResourceList {
	if list == nil && old == nil {
		return nil
	}
	kept := corev1.ResourceList{}
	maps.Copy(kept, list)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(kept, name)
		if quantity, ok := old[name]; ok {
			kept[name] = quantity
		}
	}
	return kept
}
