package services

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Conversions are the conversions of the types of group networking.k8s.io.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[networkingv1.Ingress, networkingv1.Ingress](),
		kind.Same[networkingv1.Ingress, networkingv1beta1.Ingress](),
		kind.Same[networkingv1.Ingress, extensionsv1beta1.Ingress](),
		kind.Both(
			func(in *networkingv1beta1.IngressSpec, hub *networkingv1.IngressSpec) error {
				if b := in.Backend; b != nil {
					hub.DefaultBackend = &networkingv1.IngressBackend{Resource: b.Resource.DeepCopy(), Service: serviceIn(b.ServiceName, b.ServicePort)}
				}
				return nil
			},
			func(hub *networkingv1.IngressSpec, out *networkingv1beta1.IngressSpec) error {
				if b := hub.DefaultBackend; b != nil {
					out.Backend = &networkingv1beta1.IngressBackend{Resource: b.Resource.DeepCopy()}
					serviceOut(b.Service, &out.Backend.ServiceName, &out.Backend.ServicePort)
				}
				return nil
			},
		),
		kind.Both(
			func(in *networkingv1beta1.IngressBackend, hub *networkingv1.IngressBackend) error {
				hub.Service = serviceIn(in.ServiceName, in.ServicePort)
				return nil
			},
			func(hub *networkingv1.IngressBackend, out *networkingv1beta1.IngressBackend) error {
				serviceOut(hub.Service, &out.ServiceName, &out.ServicePort)
				return nil
			},
		),
		kind.Both(
			func(in *extensionsv1beta1.IngressSpec, hub *networkingv1.IngressSpec) error {
				if b := in.Backend; b != nil {
					hub.DefaultBackend = &networkingv1.IngressBackend{Resource: b.Resource.DeepCopy(), Service: serviceIn(b.ServiceName, b.ServicePort)}
				}
				return nil
			},
			func(hub *networkingv1.IngressSpec, out *extensionsv1beta1.IngressSpec) error {
				if b := hub.DefaultBackend; b != nil {
					out.Backend = &extensionsv1beta1.IngressBackend{Resource: b.Resource.DeepCopy()}
					serviceOut(b.Service, &out.Backend.ServiceName, &out.Backend.ServicePort)
				}
				return nil
			},
		),
		kind.Both(
			func(in *extensionsv1beta1.IngressBackend, hub *networkingv1.IngressBackend) error {
				hub.Service = serviceIn(in.ServiceName, in.ServicePort)
				return nil
			},
			func(hub *networkingv1.IngressBackend, out *extensionsv1beta1.IngressBackend) error {
				serviceOut(hub.Service, &out.ServiceName, &out.ServicePort)
				return nil
			},
		),

		kind.Same[networkingv1.IngressClass, networkingv1.IngressClass](),
		kind.Same[networkingv1.IngressClass, networkingv1beta1.IngressClass](),
		kind.Same[networkingv1.IPAddress, networkingv1.IPAddress](),
		kind.Same[networkingv1.IPAddress, networkingv1beta1.IPAddress](),
		kind.Same[networkingv1.ServiceCIDR, networkingv1.ServiceCIDR](),
		kind.Same[networkingv1.ServiceCIDR, networkingv1beta1.ServiceCIDR](),

		kind.Same[networkingv1.NetworkPolicy, networkingv1.NetworkPolicy](),
		kind.Same[networkingv1.NetworkPolicy, extensionsv1beta1.NetworkPolicy](),
		// Conversions from and to extensions turn missing lists into empty ones.
		kind.Both(
			func(_ *extensionsv1beta1.NetworkPolicySpec, hub *networkingv1.NetworkPolicySpec) error {
				empty(&hub.Ingress)
				empty(&hub.Egress)
				return nil
			},
			func(_ *networkingv1.NetworkPolicySpec, out *extensionsv1beta1.NetworkPolicySpec) error {
				empty(&out.Ingress)
				empty(&out.Egress)
				return nil
			},
		),
		kind.Both(
			func(_ *extensionsv1beta1.NetworkPolicyIngressRule, hub *networkingv1.NetworkPolicyIngressRule) error {
				empty(&hub.Ports)
				return nil
			},
			func(_ *networkingv1.NetworkPolicyIngressRule, out *extensionsv1beta1.NetworkPolicyIngressRule) error {
				empty(&out.Ports)
				return nil
			},
		),
		kind.Both(
			func(_ *extensionsv1beta1.NetworkPolicyEgressRule, hub *networkingv1.NetworkPolicyEgressRule) error {
				empty(&hub.Ports)
				empty(&hub.To)
				return nil
			},
			func(_ *networkingv1.NetworkPolicyEgressRule, out *extensionsv1beta1.NetworkPolicyEgressRule) error {
				empty(&out.Ports)
				empty(&out.To)
				return nil
			},
		),
		kind.Both(
			func(_ *extensionsv1beta1.IPBlock, hub *networkingv1.IPBlock) error { empty(&hub.Except); return nil },
			func(_ *networkingv1.IPBlock, out *extensionsv1beta1.IPBlock) error { empty(&out.Except); return nil },
		),
	}
}

// serviceIn returns the service backend of two former fields, nil if both are empty.
func serviceIn(name string, port intstr.IntOrString) *networkingv1.IngressServiceBackend {
	if name == "" && port == (intstr.IntOrString{}) {
		return nil
	}
	return &networkingv1.IngressServiceBackend{
		Name: name,
		Port: networkingv1.ServiceBackendPort{Name: port.StrVal, Number: port.IntVal},
	}
}

func serviceOut(service *networkingv1.IngressServiceBackend, name *string, port *intstr.IntOrString) {
	if service == nil {
		return
	}
	*name, *port = service.Name, intstr.FromInt32(service.Port.Number)
	if service.Port.Name != "" {
		*port = intstr.FromString(service.Port.Name)
	}
}

// empty turns a nil list into an empty one.
func empty[E any](list *[]E) {
	if *list == nil {
		*list = []E{}
	}
}
