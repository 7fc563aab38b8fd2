package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults registers the defaults of services, endpoints and endpoint slices.
func Defaults(f *defaults.Functions) {
	defaults.On(f, defaultService)
	defaults.On(f, func(p *corev1.EndpointPort) { defaults.Value(&p.Protocol, corev1.ProtocolTCP) })
}

func defaultService(s *corev1.Service) {
	spec := &s.Spec
	defaults.Value(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		defaults.Pointer(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		defaults.Pointer(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		defaults.Pointer(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	defaults.Value(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		defaults.Value(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == (intstr.IntOrString{}) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if balanced || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0 {
		defaults.Value(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if balanced || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeClusterIP {
		defaults.Pointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if balanced {
		defaults.Pointer(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if ingress := &s.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
				defaults.Pointer(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}
