package services

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepareService completes the IP families and addresses of a new service.
func prepareService(s *corev1.Service) {
	spec := &s.Spec
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	completeNetwork(s, nil)
}

// updateService restores allocated values that a client leaves out, and removes unchanged values
// that the new type of the service does not have.
func updateService(obj, before resource.Tree) {
	old := kind.Decoded[corev1.Service](before)
	kind.Edited(func(s *corev1.Service) {
		keepAllocated(s, old)
		followClusterIP(s, old)
		completeNetwork(s, old)
		dropForType(s, old)
	})(obj)
}

func completeNetwork(s, old *corev1.Service) {
	network, _ := networkOf(s, old) // validation reports the error
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies, s.Spec.ClusterIPs = network.Policy, network.Families, network.ClusterIPs
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.InternalTrafficPolicy = nil // a default that Kubernetes once set by mistake
	}
}

// keepAllocated restores addresses and ports that an update leaves open.
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
	if checksHealth(s) && checksHealth(old) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

// keepNodePorts restores node ports by the name of the port, unless another port has the node port
// now.
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

// followClusterIP updates clusterIPs for clients that know clusterIP only.
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

// dropForType removes values that services of the new type do not have, unless the client has
// changed them: that is an error.
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
	if checksHealth(old) && !checksHealth(s) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
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
	if open(old) && !open(s) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// addressed reports whether a service has a cluster IP, which may be None.
func addressed(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// published reports whether a service may have node ports.
func published(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// wantsNodePorts reports whether each port of a service gets a node port.
func wantsNodePorts(s *corev1.Service) bool {
	allocate := s.Spec.AllocateLoadBalancerNodePorts
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

func equal[V comparable](a, b *V) bool { return a == b || a != nil && b != nil && *a == *b }

// warnOfService warns of ignored and deprecated fields, and of ambiguous IP addresses.
func warnOfService(obj, _ resource.Tree) []string {
	var warnings []string
	s := kind.Decoded[corev1.Service](obj)
	spec, path := &s.Spec, field.NewPath("spec")
	if _, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warnings = append(warnings, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			warnings = append(warnings, storage.AddressWarnings(path.Child("clusterIPs").Index(i), ip)...)
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
		warnings = append(warnings, storage.AddressWarnings(path.Child("externalIPs").Index(i), ip)...)
	}
	external := spec.Type == corev1.ServiceTypeExternalName
	if len(spec.ExternalIPs) > 0 && !headless && !external {
		warnings = append(warnings, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, storage.AddressWarnings(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, storage.RangeWarnings(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
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
