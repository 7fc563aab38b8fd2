package validation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodTemplate judges what pods are made of.
func validatePodTemplate(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	all := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	all = append(all, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	all = append(all, validatePodSpec(&template.Spec, path.Child("spec"), false)...)
	if len(template.Spec.EphemeralContainers) > 0 {
		all = append(all, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return all
}

// validatePodSpec judges the spec of a pod or, more leniently, of a template.
func validatePodSpec(spec *corev1.PodSpec, path *field.Path, ofPod bool) field.ErrorList {
	var all field.ErrorList
	volumes, problems := validateVolumes(spec.Volumes, path.Child("volumes"))
	all = append(all, problems...)
	all = append(all, validateContainers(spec, volumes, path.Child("containers"))...)
	all = append(all, validateInitContainers(spec, volumes, path.Child("initContainers"))...)
	all = append(all, validateEphemeralContainers(spec, volumes, path.Child("ephemeralContainers"))...)
	if spec.HostNetwork {
		all = append(all, validateHostNetworkPorts(spec.Containers, path.Child("containers"), ofPod)...)
	}
	all = append(all, oneOf(path.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	all = append(all, oneOf(path.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	all = append(all, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	if isTrue(spec.ShareProcessNamespace) && spec.HostPID {
		all = append(all, field.Invalid(path.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	for i, gate := range spec.ReadinessGates {
		all = append(all, validateQualified(path.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType))...)
	}
	all = append(all, validateSchedulingGates(spec.SchedulingGates, path.Child("schedulingGates"))...)
	all = append(all, validatePodNames(spec, path)...)
	all = append(all, validateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	if name := spec.PriorityClassName; name != "" {
		all = append(all, invalid(path.Child("priorityClassName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if name := spec.RuntimeClassName; name != nil {
		all = append(all, invalid(path.Child("runtimeClassName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if policy := spec.PreemptionPolicy; policy != nil {
		all = append(all, oneOf(path.Child("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return all
}

// validatePodNames judges who the pod is and where it runs.
func validatePodNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if name := spec.ServiceAccountName; name != "" {
		all = append(all, invalid(path.Child("serviceAccountName"), name, apivalidation.ValidateServiceAccountName(name, false))...)
	}
	if name := spec.NodeName; name != "" {
		all = append(all, invalid(path.Child("nodeName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil && (*seconds < 1 || *seconds > math.MaxInt32) {
		all = append(all, field.Invalid(path.Child("activeDeadlineSeconds"), *seconds, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.Hostname != "" {
		all = append(all, validateLabelled(path.Child("hostname"), spec.Hostname)...)
	}
	if spec.Subdomain != "" {
		all = append(all, validateLabelled(path.Child("subdomain"), spec.Subdomain)...)
	}
	return all
}

// validateHostNetworkPorts: who shares the network of the host has no other ports.
func validateHostNetworkPorts(containers []corev1.Container, path *field.Path, ofPod bool) field.ErrorList {
	var all field.ErrorList
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort != port.ContainerPort && (ofPod || port.HostPort != 0) {
				all = append(all, field.Invalid(path.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return all
}

func validateSchedulingGates(gates []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, gate := range gates {
		all = append(all, validateQualified(path.Index(i), gate.Name)...)
		if seen[gate.Name] {
			all = append(all, field.Duplicate(path.Index(i), gate.Name))
		}
		seen[gate.Name] = true
	}
	return all
}

func validateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			all = append(all, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			all = append(all, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			all = append(all, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		all = append(all, validateTolerationValue(t, at)...)
		if t.Effect != "" {
			all = append(all, oneOf(at.Child("effect"), t.Effect,
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		}
	}
	return all
}

func validateTolerationValue(t corev1.Toleration, path *field.Path) field.ErrorList {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, join(problems))}
		}
		return nil
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")}
		}
		return nil
	}
	return oneOf(path.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
}
