package services

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateService returns the errors of a service before addresses and ports are allocated.
func validateService(s, old *corev1.Service) field.ErrorList {
	// Errors that Kubernetes finds during allocation are returned alone.
	if _, errs := networkOf(s, old); len(errs) > 0 {
		return errs
	}
	if errs := validateRepeatedNodePorts(s, old); len(errs) > 0 {
		return errs
	}
	var all field.ErrorList
	if old != nil {
		all = append(all, validateNetworkUpdate(s, old)...)
		all = append(all, validateLoadBalancerClass(s, old)...) // Kubernetes checks this twice and reports it once
		if checksHealth(s) && checksHealth(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
			all = append(all, field.Forbidden(field.NewPath("spec", "healthCheckNodePort"), "field is immutable"))
		}
	}
	return append(all, validateOneService(s, old)...)
}

func validateOneService(s, old *corev1.Service) field.ErrorList {
	var all field.ErrorList
	spec, path := &s.Spec, field.NewPath("spec")
	const hints, mode = corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode
	h, hasHints := s.Annotations[hints]
	if m, hasMode := s.Annotations[mode]; hasMode && hasHints && m != h {
		all = append(all, field.Invalid(field.NewPath("metadata", "annotations").Key(mode), m, fmt.Sprintf("must match annotations[%s] when both are specified", hints)))
	}
	if len(spec.Ports) == 0 && !headless(s) && spec.Type != corev1.ServiceTypeExternalName {
		all = append(all, field.Required(path.Child("ports"), ""))
	}
	all = append(all, validateServiceType(s, path)...)
	names := map[string]bool{}
	for i := range spec.Ports {
		all = append(all, validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, names, path.Child("ports").Index(i))...)
	}
	if spec.Selector != nil {
		all = append(all, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	}
	all = append(all, validateSessionAffinity(spec, path)...)
	all = append(all, validateClusterIPs(s, old)...)

	var before corev1.ServiceSpec
	if old != nil {
		before = old.Spec
	}
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if errs := validation.IsValidIPForLegacyField(at, ip, true, before.ExternalIPs); len(errs) > 0 {
			all = append(all, errs...)
		} else {
			all = append(all, endpointRules{}.validateIP(ip, at)...)
		}
	}
	all = append(all, rule.OneOf(path.Child("type"), spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	all = append(all, validateUniquePorts(spec, path.Child("ports"))...)
	all = append(all, validateSourceRanges(s, old, path)...)
	if spec.AllocateLoadBalancerNodePorts != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		all = append(all, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if old == nil {
		all = append(all, validateLoadBalancerClass(s, nil)...)
	}
	return append(all, validateTraffic(s, path)...)
}

const onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"

func validateServiceType(s *corev1.Service, path *field.Path) field.ErrorList {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(s) {
			return field.ErrorList{field.Invalid(path.Child("clusterIPs").Index(0), s.Spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", s.Spec.Type))}
		}
	case corev1.ServiceTypeExternalName:
		var all field.ErrorList
		const message = "may not be set for ExternalName services"
		if len(s.Spec.ClusterIPs) > 0 {
			all = append(all, field.Forbidden(path.Child("clusterIPs"), message))
		}
		if len(s.Spec.IPFamilies) > 0 {
			all = append(all, field.Forbidden(path.Child("ipFamilies"), message))
		}
		if s.Spec.IPFamilyPolicy != nil {
			all = append(all, field.Forbidden(path.Child("ipFamilyPolicy"), message))
		}
		name := strings.TrimSuffix(s.Spec.ExternalName, ".")
		if name == "" {
			return append(all, field.Required(path.Child("externalName"), ""))
		}
		return append(all, rule.Invalid(path.Child("externalName"), name, validation.IsDNS1123Subdomain(name))...)
	}
	return nil
}

func validateServicePort(port *corev1.ServicePort, named bool, names map[string]bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if port.Name != "" {
		all = append(all, rule.ValidateLabel(path.Child("name"), port.Name)...)
		if names[port.Name] {
			all = append(all, field.Duplicate(path.Child("name"), port.Name))
		}
		names[port.Name] = true
	} else if named {
		all = append(all, field.Required(path.Child("name"), ""))
	}
	all = append(all, rule.Invalid(path.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))...)
	all = append(all, validateProtocol(path.Child("protocol"), port.Protocol)...)
	if target := port.TargetPort; target.Type == intstr.Int {
		all = append(all, rule.Invalid(path.Child("targetPort"), target.IntValue(), validation.IsValidPortNum(target.IntValue()))...)
	} else {
		all = append(all, rule.Invalid(path.Child("targetPort"), target.StrVal, validation.IsValidPortName(target.StrVal))...)
	}
	if port.AppProtocol != nil {
		all = append(all, rule.ValidateQualifiedName(path.Child("appProtocol"), *port.AppProtocol)...)
	}
	return all
}

func validateProtocol(path *field.Path, protocol corev1.Protocol) field.ErrorList {
	return rule.OneOf(path, protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

func validateSessionAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	all := rule.OneOf(path.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config := path.Child("sessionAffinityConfig")
	switch {
	case spec.SessionAffinity == corev1.ServiceAffinityNone && spec.SessionAffinityConfig != nil:
		all = append(all, field.Forbidden(config, "must not be set when session affinity is None"))
	case spec.SessionAffinity == corev1.ServiceAffinityClientIP:
		timeout := spec.SessionAffinityConfig.ClientIP.TimeoutSeconds
		if *timeout <= 0 || *timeout > 24*60*60 {
			all = append(all, field.Invalid(config.Child("clientIP", "timeoutSeconds"), timeout, "must be greater than 0 and less than 86400"))
		}
	}
	return all
}

// validateUniquePorts rejects duplicate pairs of protocol and port, and of protocol and node port.
func validateUniquePorts(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, port := range spec.Ports {
			if port.NodePort != 0 {
				all = append(all, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	seen := map[corev1.ServicePort]bool{}
	for i, port := range spec.Ports {
		key := corev1.ServicePort{Protocol: port.Protocol, NodePort: port.NodePort}
		if port.NodePort != 0 && seen[key] {
			all = append(all, field.Duplicate(path.Index(i).Child("nodePort"), port.NodePort))
		}
		seen[key] = true
	}
	clear(seen)
	for i, port := range spec.Ports {
		key := corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}
		if seen[key] {
			all = append(all, field.Duplicate(path.Index(i), rule.AsInternal(key)))
		}
		seen[key] = true
	}
	return all
}

func validateSourceRanges(s, old *corev1.Service, path *field.Path) field.ErrorList {
	var all field.ErrorList
	const annotation = corev1.AnnotationLoadBalancerSourceRangesKey
	ranges, before := s.Spec.LoadBalancerSourceRanges, []string(nil)
	at := path.Child("LoadBalancerSourceRanges")
	value, annotated := s.Annotations[annotation]
	element := func(i int) *field.Path { return at.Index(i) }
	switch {
	case len(ranges) > 0:
		if old != nil {
			before = trimmed(old.Spec.LoadBalancerSourceRanges)
		}
	case annotated:
		at = field.NewPath("metadata", "annotations").Key(annotation)
		element = func(int) *field.Path { return at }
		if value = strings.TrimSpace(value); value != "" && (old == nil || old.Annotations[annotation] != s.Annotations[annotation]) {
			ranges = strings.Split(value, ",")
		}
	default:
		return nil
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		all = append(all, field.Forbidden(at, onlyLoadBalancer))
	}
	for i, cidr := range trimmed(ranges) {
		all = append(all, validation.IsValidCIDRForLegacyField(element(i), cidr, true, before)...)
	}
	return all
}

func trimmed(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func validateLoadBalancerClass(s, old *corev1.Service) field.ErrorList {
	var all field.ErrorList
	path, class := field.NewPath("spec", "loadBalancerClass"), s.Spec.LoadBalancerClass
	balanced := s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if old != nil && balanced && old.Spec.Type == corev1.ServiceTypeLoadBalancer && !sameText(class, old.Spec.LoadBalancerClass) {
		all = append(all, field.Invalid(path, class, "may not change once set"))
	}
	if class == nil {
		return all
	}
	if !balanced {
		return append(all, field.Forbidden(path, onlyLoadBalancer))
	}
	return append(all, rule.ValidateQualifiedName(path, *class)...)
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func validateTraffic(s *corev1.Service, path *field.Path) field.ErrorList {
	var all field.ErrorList
	spec := &s.Spec
	external := path.Child("externalTrafficPolicy")
	if open(s) {
		all = append(all, rule.OneOf(external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		all = append(all, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if port := spec.HealthCheckNodePort; port != 0 && !checksHealth(s) {
		all = append(all, field.Invalid(path.Child("healthCheckNodePort"), port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	if policy := spec.InternalTrafficPolicy; policy != nil {
		all = append(all, rule.Supported(path.Child("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if distribution := spec.TrafficDistribution; distribution != nil {
		all = append(all, rule.Supported(path.Child("trafficDistribution"), *distribution, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return all
}

// open reports whether a service is reached from outside the cluster.
func open(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	}
	return s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

// checksHealth reports whether load balancers check each node for endpoints of the service.
func checksHealth(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// headless reports whether a service has the cluster IP None.
func headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// validateServiceName returns the errors of a service's name, also in references.
func validateServiceName(name string, prefix bool) []string {
	return apivalidation.NameIsDNSLabel(name, prefix)
}
