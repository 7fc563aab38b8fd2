package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
)

// NetworkingDefaults registers the defaults of the types of group networking.k8s.io.
func NetworkingDefaults(f *defaults.Functions) {
	defaults.On(f, defaultExtensionsNetworkPolicy)
	defaults.On(f, func(p *extensionsv1beta1.HTTPIngressPath) {
		defaults.Pointer(&p.PathType, extensionsv1beta1.PathTypeImplementationSpecific)
	})
	defaults.On(f, func(p *networkingv1.NetworkPolicyPort) { defaults.Pointer(&p.Protocol, corev1.ProtocolTCP) })
	defaults.On(f, func(p *networkingv1.NetworkPolicy) {
		if len(p.Spec.PolicyTypes) == 0 {
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(p.Spec.Egress) > 0 {
				p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
	})
	defaults.On(f, func(p *networkingv1.IngressClassParametersReference) {
		defaults.Pointer(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	})
	defaults.On(f, func(p *networkingv1beta1.HTTPIngressPath) {
		defaults.Pointer(&p.PathType, networkingv1beta1.PathTypeImplementationSpecific)
	})

	defaults.On(f, func(p *discoveryv1.EndpointPort) {
		defaults.Pointer(&p.Name, "")
		defaults.Pointer(&p.Protocol, corev1.ProtocolTCP)
	})
	defaults.On(f, func(p *discoveryv1beta1.EndpointPort) {
		defaults.Pointer(&p.Name, "")
		defaults.Pointer(&p.Protocol, corev1.ProtocolTCP)
	})
}

// defaultExtensionsNetworkPolicy leaves the protocol of ports empty: Kubernetes means to default
// it, but sets it in a copy.
func defaultExtensionsNetworkPolicy(p *extensionsv1beta1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []extensionsv1beta1.PolicyType{extensionsv1beta1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, extensionsv1beta1.PolicyTypeEgress)
		}
	}
}
