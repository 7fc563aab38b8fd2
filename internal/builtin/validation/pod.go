package validation

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func Pod(pod, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	spec := &pod.Spec
	all := validatePodSpec(spec, path, true)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		all = append(all, apivalidation.ValidateNonnegativeField(*grace, path.Child("terminationGracePeriodSeconds"))...)
	}
	all = append(all, validateTrimmedImages(spec.Containers, path.Child("containers"))...)
	all = append(all, validateTrimmedImages(spec.InitContainers, path.Child("initContainers"))...)
	if old != nil {
		return append(all, validatePodUpdate(spec, &old.Spec, path)...)
	}
	if len(spec.EphemeralContainers) > 0 {
		all = append(all, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
		all = append(all, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return all
}

func validateTrimmedImages(containers []corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, c := range containers {
		if strings.TrimSpace(c.Image) != c.Image {
			all = append(all, field.Invalid(at.Index(i).Child("image"), c.Image, "must not have leading or trailing whitespace"))
		}
	}
	return all
}

// mutableSpec is what may change of a pod, as the message says it.
const mutableSpec = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// validatePodUpdate finds what may not change of a spec, by comparing it with a
// copy in which what may change has its old value.
func validatePodUpdate(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, containers := range []struct {
		name     string
		now, old []corev1.Container
	}{{"containers", spec.Containers, old.Containers}, {"initContainers", spec.InitContainers, old.InitContainers}} {
		at := path.Child(containers.name)
		if len(containers.now) != len(containers.old) {
			return append(all, field.Forbidden(at, "pod updates may not add or remove containers"))
		}
		for i, c := range containers.now {
			if c.Image == "" {
				all = append(all, field.Required(at.Index(i).Child("image"), ""))
			}
		}
		all = append(all, validateTrimmedImages(containers.now, at)...)
	}
	problems, stop := validateDeadlineUpdate(spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	all = append(all, problems...)
	if stop {
		return all
	}
	all = append(all, validateTolerationUpdate(spec.Tolerations, old.Tolerations, path.Child("tolerations"))...)
	all = append(all, validateGateUpdate(spec.SchedulingGates, old.SchedulingGates, path.Child("schedulingGates"))...)
	if equality.Semantic.DeepEqual(spec, old) {
		return all
	}
	rest := restoreMutable(spec, old)
	if len(old.SchedulingGates) > 0 && !equality.Semantic.DeepEqual(rest.NodeSelector, old.NodeSelector) {
		all = append(all, validateSelectorAdditions(rest.NodeSelector, old.NodeSelector, path.Child("nodeSelector"))...)
		rest.NodeSelector = old.NodeSelector
	}
	if !equality.Semantic.DeepEqual(rest, old) {
		all = append(all, field.Forbidden(path, fmt.Sprintf("pod updates may not change fields other than %s\n%v", mutableSpec, diff.Diff(asInternal(old), asInternal(rest)))))
	}
	return all
}

// restoreMutable returns a copy of a spec in which what may change is as before.
func restoreMutable(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	if ptr.Deref(old.TerminationGracePeriodSeconds, 0) < 0 && ptr.Deref(rest.TerminationGracePeriodSeconds, 0) == 1 {
		rest.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	return rest
}

// validateDeadlineUpdate: a deadline may be set, and come nearer.
func validateDeadlineUpdate(now, old *int64, at *field.Path) (problems field.ErrorList, stop bool) {
	switch {
	case now == nil && old == nil:
		return nil, false
	case now == nil:
		return field.ErrorList{field.Invalid(at, now, "must not update from a positive integer to nil value")}, false
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, *now, validation.InclusiveRangeError(0, math.MaxInt32))}, true
	case old != nil && *old < *now:
		return field.ErrorList{field.Invalid(at, *now, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// validateTolerationUpdate: tolerations stay, but for how long they hold.
func validateTolerationUpdate(now, old []corev1.Toleration, at *field.Path) field.ErrorList {
	for _, before := range old {
		found := false
		for _, t := range now {
			t.TolerationSeconds = before.TolerationSeconds
			found = found || t == before
		}
		if !found {
			return field.ErrorList{field.Forbidden(at, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return validateTolerations(now, at)
}

// validateGateUpdate: gates only open.
func validateGateUpdate(now, old []corev1.PodSchedulingGate, at *field.Path) field.ErrorList {
	var all field.ErrorList
	had := map[string]bool{}
	for _, gate := range old {
		had[gate.Name] = true
	}
	for i, gate := range now {
		if !had[gate.Name] {
			all = append(all, field.Forbidden(at.Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	return all
}

// validateSelectorAdditions: while a pod is gated, its nodes may become fewer.
func validateSelectorAdditions(now, old map[string]string, at *field.Path) field.ErrorList {
	for key, value := range old {
		if after, ok := now[key]; !ok || after != value {
			return field.ErrorList{field.Invalid(at, now, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")}
		}
	}
	return nil
}

func PodStatus(pod, old *corev1.Pod) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("status")
	for i, c := range pod.Status.Conditions {
		switch at := path.Child("conditions").Index(i); c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			all = append(all, validateQualified(at.Child("Type"), string(c.Type))...)
		}
	}
	if name := pod.Status.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		all = append(all, invalid(path.Child("nominatedNodeName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if n := pod.Status.ObservedGeneration; n < 0 {
		all = append(all, field.Invalid(path.Child("observedGeneration"), n, "must be a non-negative integer"))
	}
	all = append(all, apivalidation.ValidateImmutableField(pod.Status.QOSClass, old.Status.QOSClass, path.Child("qosClass"))...)
	return append(all, validateStaysTerminated(pod.Status.ContainerStatuses, old.Status.ContainerStatuses, &pod.Spec, path.Child("containerStatuses"))...)
}

// validateStaysTerminated: a container that has ended for good does not come back.
func validateStaysTerminated(now, old []corev1.ContainerStatus, spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, before := range old {
		if before.State.Terminated == nil || mayRestart(spec, before.Name, before.State.Terminated.ExitCode) {
			continue
		}
		for _, after := range now {
			if after.Name == before.Name && after.State.Terminated == nil {
				all = append(all, field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return all
}

// mayRestart says whether a container may run again after it has ended.
func mayRestart(spec *corev1.PodSpec, name string, exitCode int32) bool {
	policy := corev1.ContainerRestartPolicy(spec.RestartPolicy)
	for _, c := range spec.Containers {
		if c.Name != name {
			continue
		}
		if len(c.RestartPolicyRules) > 0 {
			return true // whether a rule applies is the kubelet's to know
		}
		if c.RestartPolicy != nil {
			policy = *c.RestartPolicy
		}
	}
	return policy == corev1.ContainerRestartPolicyAlways || policy == corev1.ContainerRestartPolicyOnFailure && exitCode != 0
}
