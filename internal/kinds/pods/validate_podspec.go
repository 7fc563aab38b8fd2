package pods

import (
	"fmt"
	"math"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTemplate returns the errors of a pod template.
func ValidateTemplate(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	all := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	all = append(all, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	all = append(all, validatePodAnnotations(template.Annotations, &template.Spec, path.Child("annotations"))...)
	all = append(all, validatePodSpec(&template.Spec, nil, path.Child("spec"))...)
	all = append(all, validateSeccompMatches(template.Annotations, &template.Spec, path.Child("spec"))...)
	all = append(all, validateAppArmorMatches(template.Annotations, &template.Spec, path.Child("spec"))...)
	if len(template.Spec.EphemeralContainers) > 0 {
		all = append(all, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return all
}

// validatePodSpec returns the errors of the spec of a pod or, more leniently, of a template, for
// which meta is nil.
func validatePodSpec(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var all field.ErrorList
	volumes, problems := validateVolumes(spec.Volumes, meta, path.Child("volumes"))
	all = append(all, problems...)
	all = append(all, validatePodClaims(spec.ResourceClaims, meta, path.Child("resourceClaims"))...)
	all = append(all, validateContainers(spec, volumes, path.Child("containers"))...)
	all = append(all, validateInitContainers(spec, volumes, path.Child("initContainers"))...)
	all = append(all, validateEphemeralContainers(spec, volumes, path.Child("ephemeralContainers"))...)
	all = append(all, validatePodResources(spec, path.Child("resources"))...)
	if spec.HostNetwork {
		all = append(all, validateHostNetworkPorts(spec.Containers, path.Child("containers"), meta != nil)...)
	}
	all = append(all, rule.OneOf(path.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	all = append(all, rule.OneOf(path.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	all = append(all, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	all = append(all, validatePodSecurityContext(spec, path.Child("securityContext"))...)
	if rule.IsTrue(spec.ShareProcessNamespace) && spec.HostPID {
		all = append(all, field.Invalid(path.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	all = append(all, validatePodAffinity(spec.Affinity, path.Child("affinity"))...)
	all = append(all, validateDNSConfig(spec.DNSConfig, spec.DNSPolicy, path.Child("dnsConfig"))...)
	for i, gate := range spec.ReadinessGates {
		all = append(all, rule.ValidateQualifiedName(path.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType))...)
	}
	all = append(all, validateSchedulingGates(spec.SchedulingGates, path.Child("schedulingGates"))...)
	all = append(all, validateSpreading(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	all = append(all, validateHostProcess(spec, path)...)
	all = append(all, validateHostUsers(spec, path)...)
	all = append(all, validateHostname(spec, path.Child("hostnameOverride"))...)
	all = append(all, validatePodNames(spec, path)...)
	all = append(all, ValidateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	all = append(all, validateHostAliases(spec.HostAliases, path.Child("hostAliases"))...)
	if name := spec.PriorityClassName; name != "" {
		all = append(all, rule.Invalid(path.Child("priorityClassName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if name := spec.RuntimeClassName; name != nil {
		all = append(all, rule.Invalid(path.Child("runtimeClassName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if policy := spec.PreemptionPolicy; policy != nil {
		all = append(all, rule.OneOf(path.Child("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	all = append(all, validateResources(&corev1.ResourceRequirements{Limits: spec.Overhead}, nil, path.Child("overhead"))...)
	all = append(all, validateOS(spec, path)...)
	return append(all, validateFileKeyVolumes(spec, path)...)
}

// eachContainer calls visit with every container of a pod and its path: init, regular and ephemeral
// containers.
func eachContainer(spec *corev1.PodSpec, path *field.Path, visit func(c *corev1.Container, at *field.Path)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		visit((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), path.Child("ephemeralContainers").Index(i))
	}
}

// validatePodNames returns the errors of the names of the host, node, service account and
// scheduler.
func validatePodNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if name := spec.ServiceAccountName; name != "" {
		all = append(all, rule.Invalid(path.Child("serviceAccountName"), name, apivalidation.ValidateServiceAccountName(name, false))...)
	}
	if name := spec.NodeName; name != "" {
		all = append(all, rule.Invalid(path.Child("nodeName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil && (*seconds < 1 || *seconds > math.MaxInt32) {
		all = append(all, field.Invalid(path.Child("activeDeadlineSeconds"), *seconds, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.Hostname != "" {
		all = append(all, rule.ValidateLabel(path.Child("hostname"), spec.Hostname)...)
	}
	if spec.Subdomain != "" {
		all = append(all, rule.ValidateLabel(path.Child("subdomain"), spec.Subdomain)...)
	}
	return all
}

// validateHostname returns the errors of a hostname override.
func validateHostname(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if spec.HostnameOverride == nil {
		return nil
	}
	name := *spec.HostnameOverride
	if rule.IsTrue(spec.SetHostnameAsFQDN) {
		all = append(all, field.Forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
	}
	if spec.HostNetwork {
		all = append(all, field.Forbidden(path, "may not be specified when hostNetwork is true"))
	}
	if len(name) > 64 {
		all = append(all, field.TooLong(path, "", 64))
	}
	return append(all, rule.Invalid(path, name, validation.IsDNS1123Subdomain(name))...)
}

// validateHostUsers rejects other host namespaces for pods with a user namespace.
func validateHostUsers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.HostUsers == nil || *spec.HostUsers {
		return nil
	}
	const why = "when `hostUsers` is false"
	var all field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork}, {"HostPID", spec.HostPID}, {"HostIPC", spec.HostIPC}} {
		if f.set {
			all = append(all, field.Forbidden(path.Child(f.name), why))
		}
	}
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if len(c.VolumeDevices) > 0 {
			all = append(all, field.Forbidden(at.Child("volumeDevices"), why))
		}
	})
	return all
}

// validateHostNetworkPorts requires host ports to equal container ports in the host's network.
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
		all = append(all, rule.ValidateQualifiedName(path.Index(i), gate.Name)...)
		if seen[gate.Name] {
			all = append(all, field.Duplicate(path.Index(i), gate.Name))
		}
		seen[gate.Name] = true
	}
	return all
}

// Limits of resolv.conf in the C library of Linux.
const (
	maxNameservers    = 3
	maxSearchPaths    = 32
	maxSearchListSize = 2048
)

func validateDNSConfig(config *corev1.PodDNSConfig, policy corev1.DNSPolicy, path *field.Path) field.ErrorList {
	if policy == corev1.DNSNone {
		switch {
		case config == nil:
			return field.ErrorList{field.Required(path, "must provide `dnsConfig` when `dnsPolicy` is None")}
		case len(config.Nameservers) == 0:
			return field.ErrorList{field.Required(path.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")}
		}
	}
	if config == nil {
		return nil
	}
	var all field.ErrorList
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if len(config.Nameservers) > maxNameservers {
		all = append(all, field.Invalid(servers, config.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers)))
	}
	for i, server := range config.Nameservers {
		all = append(all, validation.IsValidIPForLegacyField(servers.Index(i), server, true, nil)...)
	}
	if len(config.Searches) > maxSearchPaths {
		all = append(all, field.Invalid(searches, config.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearchPaths)))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchListSize {
		all = append(all, field.Invalid(searches, config.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchListSize)))
	}
	for i, search := range config.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			all = append(all, rule.Invalid(searches.Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search))...)
		}
	}
	for i, option := range config.Options {
		if option.Name == "" {
			all = append(all, field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return all
}

func validateHostAliases(aliases []corev1.HostAlias, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, alias := range aliases {
		all = append(all, validation.IsValidIPForLegacyField(path.Index(i).Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			all = append(all, rule.Invalid(path.Index(i).Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return all
}
