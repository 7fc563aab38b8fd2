package pods

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// validatePodStatus returns the errors of a status that a kubelet or scheduler writes.
func validatePodStatus(pod, old *corev1.Pod) field.ErrorList {
	path, status, before := field.NewPath("status"), &pod.Status, &old.Status
	all := validatePodAnnotationUpdate(pod, old)
	for i, c := range status.Conditions {
		at := path.Child("conditions").Index(i)
		if c.ObservedGeneration < 0 {
			all = append(all, field.Invalid(at.Child("observedGeneration"), c.ObservedGeneration, "must be a non-negative integer"))
		}
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			all = append(all, rule.ValidateQualifiedName(at.Child("Type"), string(c.Type))...)
		}
	}
	if name := status.NominatedNodeName; name != "" && name != before.NominatedNodeName {
		at := path.Child("nominatedNodeName")
		all = append(all, rule.Invalid(at, name, apivalidation.NameIsDNSSubdomain(name, false))...)
		if old.Spec.NodeName != "" {
			all = append(all, field.Forbidden(at, "may not be set on pods that are already bound to a node"))
		}
	}
	if n := status.ObservedGeneration; n < 0 {
		all = append(all, field.Invalid(path.Child("observedGeneration"), n, "must be a non-negative integer"))
	}
	all = append(all, apivalidation.ValidateImmutableField(status.QOSClass, before.QOSClass, path.Child("qosClass"))...)
	all = append(all, validateStaysTerminated(status.ContainerStatuses, before.ContainerStatuses, &old.Spec, old.Spec.Containers, path.Child("containerStatuses"))...)
	all = append(all, validateStaysTerminated(status.InitContainerStatuses, before.InitContainerStatuses, &old.Spec, old.Spec.InitContainers, path.Child("initContainerStatuses"))...)
	all = append(all, validateEndedEphemeral(status.EphemeralContainerStatuses, before.EphemeralContainerStatuses, path.Child("ephemeralContainerStatuses"))...)
	all = append(all, validateClaimStatuses(status.ResourceClaimStatuses, pod.Spec.ResourceClaims, path.Child("resourceClaimStatuses"))...)
	all = append(all, validateExtendedClaim(status.ExtendedResourceClaimStatus, &pod.Spec, path.Child("extendedResourceClaimStatus"))...)
	all = append(all, validatePodAddresses(status, before, path)...)
	for _, of := range []struct {
		name       string
		statuses   []corev1.ContainerStatus
		containers []corev1.Container
	}{
		{"containerStatuses", status.ContainerStatuses, pod.Spec.Containers},
		{"initContainerStatuses", status.InitContainerStatuses, pod.Spec.InitContainers},
	} {
		at := path.Child(of.name)
		all = append(all, validateContainerUsers(of.statuses, pod.Spec.OS, at)...)
		all = append(all, validateAllocated(of.statuses, of.containers, status.ExtendedResourceClaimStatus, at)...)
	}
	at := path.Child("ephemeralContainerStatuses")
	all = append(all, validateContainerUsers(status.EphemeralContainerStatuses, pod.Spec.OS, at)...)
	return append(all, validateNoneAllocated(status.EphemeralContainerStatuses, at)...)
}

// validatePodAddresses accepts at most one address of each family for the pod and for its host.
func validatePodAddresses(status, old *corev1.PodStatus, path *field.Path) field.ErrorList {
	var ips, oldIPs, hosts, oldHosts []string
	for _, ip := range status.PodIPs {
		ips = append(ips, ip.IP)
	}
	for _, ip := range old.PodIPs {
		oldIPs = append(oldIPs, ip.IP)
	}
	for _, ip := range status.HostIPs {
		hosts = append(hosts, ip.IP)
	}
	for _, ip := range old.HostIPs {
		oldHosts = append(oldHosts, ip.IP)
	}
	at := path.Child("podIPs")
	all := validateAddresses(ips, oldIPs, rule.AsInternal(status.PodIPs), at)
	switch {
	case (status.PodIP == "") != (len(ips) == 0):
		all = append(all, field.Invalid(at, rule.AsInternal(status.PodIPs), "podIP and podIPs must either both be set or both be unset"))
	case len(ips) > 0 && status.PodIP != ips[0]:
		all = append(all, field.Invalid(at.Index(0).Child("ip"), ips[0], "must be equal to `podIP`"))
	}
	at = path.Child("hostIPs")
	if len(hosts) > 0 && status.HostIP != hosts[0] {
		all = append(all, field.Invalid(at.Index(0).Child("ip"), hosts[0], "must be equal to `hostIP`"))
	}
	return append(all, validateAddresses(hosts, oldHosts, rule.AsInternal(status.HostIPs), at)...)
}

func validateAddresses(ips, old []string, show any, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, ip := range ips {
		all = append(all, validation.IsValidIPForLegacyField(at.Index(i), ip, true, old)...)
	}
	if len(ips) > 1 {
		dual, err := netutils.IsDualStackIPStrings(ips)
		if err != nil {
			all = append(all, field.InternalError(at, fmt.Errorf("failed to check for dual stack with error:%v", err)))
		}
		if !dual || len(ips) > 2 {
			all = append(all, field.Invalid(at, show, "may specify no more than one IP for each IP family"))
		}
	}
	return all
}

func validateClaimStatuses(statuses []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, status := range statuses {
		at := path.Index(i)
		if !slices.ContainsFunc(claims, func(c corev1.PodResourceClaim) bool { return c.Name == status.Name }) {
			all = append(all, field.Invalid(at.Child("name"), status.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen[status.Name] {
			all = append(all, field.Duplicate(at.Child("name"), status.Name))
		}
		seen[status.Name] = true
		if name := status.ResourceClaimName; name != nil {
			all = append(all, rule.Invalid(at.Child("resourceClaimName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
	}
	return all
}

// validateStaysTerminated rejects the restart of a container that has ended for good.
func validateStaysTerminated(now, old []corev1.ContainerStatus, spec *corev1.PodSpec, containers []corev1.Container, at *field.Path) field.ErrorList {
	if restartsAll(spec) {
		return nil
	}
	var all field.ErrorList
	for i, before := range old {
		if before.State.Terminated == nil || mayRestart(spec, containers, before.Name, before.State.Terminated.ExitCode) {
			continue
		}
		if comesBack(now, before.Name) {
			all = append(all, field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return all
}

func validateEndedEphemeral(now, old []corev1.ContainerStatus, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, before := range old {
		if before.State.Terminated != nil && comesBack(now, before.Name) {
			all = append(all, field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return all
}

func comesBack(now []corev1.ContainerStatus, name string) bool {
	return slices.ContainsFunc(now, func(s corev1.ContainerStatus) bool { return s.Name == name && s.State.Terminated == nil })
}

// restartsAll reports whether the end of some container restarts all of them by a rule.
func restartsAll(spec *corev1.PodSpec) bool {
	found := false
	eachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) {
		for _, rule := range c.RestartPolicyRules {
			found = found || rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}
	})
	return found
}

// mayRestart reports whether a container may run again after it has ended: by its first matching
// rule, its own policy, or that of the pod.
func mayRestart(spec *corev1.PodSpec, containers []corev1.Container, name string, exitCode int32) bool {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return false
	}
	c := &containers[i]
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, exitCode)
		if listed == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	policy := corev1.ContainerRestartPolicy(spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	return policy == corev1.ContainerRestartPolicyAlways || policy == corev1.ContainerRestartPolicyOnFailure && exitCode != 0
}
