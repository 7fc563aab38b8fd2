package defaults

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
)

func networkingTypes(f *functions) {
	on(f, func(p *networkingv1.NetworkPolicyPort) { set(&p.Protocol, corev1.ProtocolTCP) })
	on(f, func(p *networkingv1.NetworkPolicy) {
		if len(p.Spec.PolicyTypes) == 0 {
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(p.Spec.Egress) > 0 {
				p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
	})
	on(f, func(p *networkingv1.IngressClassParametersReference) {
		set(&p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	})
	on(f, func(p *networkingv1beta1.HTTPIngressPath) {
		set(&p.PathType, networkingv1beta1.PathTypeImplementationSpecific)
	})

	on(f, func(p *discoveryv1.EndpointPort) {
		set(&p.Name, "")
		set(&p.Protocol, corev1.ProtocolTCP)
	})
	on(f, func(p *discoveryv1beta1.EndpointPort) {
		set(&p.Name, "")
		set(&p.Protocol, corev1.ProtocolTCP)
	})
}
