package builtin

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepareService completes what a new service says of its network.
func prepareService(s *corev1.Service) {
	spec := &s.Spec
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	completeNetwork(s, nil)
}

// updateService lets clients leave out what they were given, and takes away what the
// type of the service no longer has, if they have not changed it.
func updateService(obj, before resource.Tree) {
	old := decoded[corev1.Service](before)
	edited(func(s *corev1.Service) {
		keepAllocated(s, old)
		followClusterIP(s, old)
		completeNetwork(s, old)
		dropForType(s, old)
	})(obj)
}

func completeNetwork(s, old *corev1.Service) {
	network, _ := validation.NetworkOf(s, old) // what is wrong is for validation to say
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies, s.Spec.ClusterIPs = network.Policy, network.Families, network.ClusterIPs
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.InternalTrafficPolicy = nil // a default that it should not have had once
	}
}

// keepAllocated puts back addresses and ports that an update leaves open.
func keepAllocated(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if addressed(s) && addressed(old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	if wantsNodePorts(s) && wantsNodePorts(old) {
		keepNodePorts(spec.Ports, was.Ports)
	}
	if validation.ChecksHealth(s) && validation.ChecksHealth(old) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

// keepNodePorts finds the node port of a port by the port's name, unless another port
// has it now.
func keepNodePorts(ports, were []corev1.ServicePort) {
	byName := map[string]int32{}
	for _, port := range were {
		byName[port.Name] = port.NodePort
	}
	taken := map[int32]bool{}
	for _, port := range ports {
		taken[port.NodePort] = true
	}
	for i := range ports {
		if kept := byName[ports[i].Name]; ports[i].NodePort == 0 && !taken[kept] {
			ports[i].NodePort = kept
		}
	}
}

// followClusterIP keeps the list of addresses as clients mean it that know the first
// one only.
func followClusterIP(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
		spec.ClusterIPs = slices.Clone(was.ClusterIPs)
	}
	if spec.ClusterIP == was.ClusterIP || !slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		return
	}
	if was.ClusterIP != "" && spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// dropForType takes away what services of the new type do not have, as long as the
// client has not changed it: that would be an error.
func dropForType(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if addressed(old) && !addressed(s) {
		if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) {
			spec.IPFamilies = nil
		}
		if equal(spec.IPFamilyPolicy, was.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if published(old) && !published(s) && !slices.ContainsFunc(spec.Ports, func(port corev1.ServicePort) bool {
		return port.NodePort != 0 && !slices.ContainsFunc(was.Ports, func(p corev1.ServicePort) bool { return p.NodePort == port.NodePort })
	}) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if validation.ChecksHealth(old) && !validation.ChecksHealth(s) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if balanced := corev1.ServiceTypeLoadBalancer; was.Type == balanced && spec.Type != balanced {
		if equal(spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if equal(spec.LoadBalancerClass, was.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if validation.Open(old) && !validation.Open(s) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// addressed says whether a service has a cluster IP, if only None.
func addressed(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// published says whether a service may have node ports.
func published(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// wantsNodePorts says whether each port of a service gets a node port.
func wantsNodePorts(s *corev1.Service) bool {
	allocate := s.Spec.AllocateLoadBalancerNodePorts
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

func equal[V comparable](a, b *V) bool { return a == b || a != nil && b != nil && *a == *b }

// warnOfService warns of what is ignored, on its way out, or not read alike by all.
func warnOfService(obj, _ resource.Tree) []string {
	var warnings []string
	s := decoded[corev1.Service](obj)
	spec, path := &s.Spec, field.NewPath("spec")
	if _, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warnings = append(warnings, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			warnings = append(warnings, kvalidation.GetWarningsForIP(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	if headless && spec.LoadBalancerIP != "" {
		warnings = append(warnings, "spec.loadBalancerIP is ignored for headless services")
	}
	if headless && len(spec.ExternalIPs) > 0 {
		warnings = append(warnings, "spec.externalIPs is ignored for headless services")
	}
	if headless && spec.SessionAffinity != corev1.ServiceAffinityNone {
		warnings = append(warnings, "spec.SessionAffinity is ignored for headless services")
	}
	for i, ip := range spec.ExternalIPs {
		warnings = append(warnings, kvalidation.GetWarningsForIP(path.Child("externalIPs").Index(i), ip)...)
	}
	external := spec.Type == corev1.ServiceTypeExternalName
	if len(spec.ExternalIPs) > 0 && !headless && !external {
		warnings = append(warnings, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, kvalidation.GetWarningsForIP(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, kvalidation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if external && len(spec.ExternalIPs) > 0 {
		warnings = append(warnings, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	}
	if !external && spec.ExternalName != "" {
		warnings = append(warnings, `spec.externalName is ignored when spec.type is not "ExternalName"`)
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warnings = append(warnings, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return warnings
}
