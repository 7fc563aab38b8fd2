package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// validateNetworkPolicy returns the errors of a network policy. The error of an IP block without a
// range comes last: it is a declarative rule of Kubernetes.
func validateNetworkPolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	v := &policyValidator{}
	return append(v.validate(p, old), v.missing...)
}

func (v *policyValidator) validate(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	if old != nil {
		v.before(old)
	}
	spec, path := &p.Spec, field.NewPath("spec")
	all := v.selector(&spec.PodSelector, path.Child("podSelector"))
	for i, rule := range spec.Ingress {
		all = append(all, v.rule(rule.Ports, rule.From, "from", path.Child("ingress").Index(i))...)
	}
	for i, rule := range spec.Egress {
		all = append(all, v.rule(rule.Ports, rule.To, "to", path.Child("egress").Index(i))...)
	}
	types := path.Child("policyTypes")
	if len(spec.PolicyTypes) > 2 {
		return append(all, field.Invalid(types, &spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, kind := range spec.PolicyTypes {
		all = append(all, rule.Supported(types.Index(i), kind, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)...)
	}
	return all
}

// A policyValidator validates a network policy; parts that have not changed are not checked.
type policyValidator struct {
	cidrs     []string
	selectors metav1validation.LabelSelectorValidationOptions
	missing   field.ErrorList
}

func (v *policyValidator) before(old *networkingv1.NetworkPolicy) {
	var peers []networkingv1.NetworkPolicyPeer
	for _, rule := range old.Spec.Ingress {
		peers = append(peers, rule.From...)
	}
	for _, rule := range old.Spec.Egress {
		peers = append(peers, rule.To...)
	}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			v.cidrs = append(append(v.cidrs, peer.IPBlock.CIDR), peer.IPBlock.Except...)
		}
	}
	v.selectors.AllowInvalidLabelValueInSelector = len(v.selector(&old.Spec.PodSelector, nil)) > 0
}

func (v *policyValidator) selector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, v.selectors, path)
}

func (v *policyValidator) rule(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, of string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range ports {
		all = append(all, validatePolicyPort(&ports[i], path.Child("ports").Index(i))...)
	}
	for i := range peers {
		all = append(all, v.peer(&peers[i], path.Child(of).Index(i))...)
	}
	return all
}

func validatePolicyPort(port *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if port.Protocol != nil {
		all = append(all, rule.Supported(path.Child("protocol"), *port.Protocol, "TCP", "UDP", "SCTP")...)
	}
	at, end := path.Child("port"), path.Child("endPort")
	switch {
	case port.Port == nil:
		if port.EndPort != nil {
			all = append(all, field.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified"))
		}
	case port.Port.Type == intstr.String:
		if port.EndPort != nil {
			all = append(all, field.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric"))
		}
		all = append(all, rule.Invalid(at, port.Port.StrVal, validation.IsValidPortName(port.Port.StrVal))...)
	default:
		all = append(all, rule.Invalid(at, port.Port.IntVal, validation.IsValidPortNum(int(port.Port.IntVal)))...)
		if port.EndPort != nil {
			if *port.EndPort < port.Port.IntVal {
				all = append(all, field.Invalid(end, *port.EndPort, "must be greater than or equal to `port`"))
			}
			all = append(all, rule.Invalid(end, *port.EndPort, validation.IsValidPortNum(int(*port.EndPort)))...)
		}
	}
	return all
}

func (v *policyValidator) peer(peer *networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	var all field.ErrorList
	selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
	if peer.PodSelector != nil {
		all = append(all, v.selector(peer.PodSelector, path.Child("podSelector"))...)
	}
	if peer.NamespaceSelector != nil {
		all = append(all, v.selector(peer.NamespaceSelector, path.Child("namespaceSelector"))...)
	}
	if peer.IPBlock != nil {
		all = append(all, v.block(peer.IPBlock, path.Child("ipBlock"))...)
	}
	switch {
	case !selects && peer.IPBlock == nil:
		all = append(all, field.Required(path, "must specify a peer"))
	case selects && peer.IPBlock != nil:
		all = append(all, field.Forbidden(path, "may not specify both ipBlock and another peer"))
	}
	return all
}

func (v *policyValidator) block(block *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	cidr := path.Child("cidr")
	if block.CIDR == "" {
		v.missing = append(v.missing, field.Required(cidr, ""))
		return nil
	}
	all := validation.IsValidCIDRForLegacyField(cidr, block.CIDR, true, v.cidrs)
	_, whole, err := netutils.ParseCIDRSloppy(block.CIDR)
	if err != nil {
		return all
	}
	size, _ := whole.Mask.Size()
	for i, text := range block.Except {
		at := path.Child("except").Index(i)
		all = append(all, validation.IsValidCIDRForLegacyField(at, text, true, v.cidrs)...)
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if n, _ := part.Mask.Size(); !whole.Contains(part.IP) || size >= n {
			all = append(all, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return all
}
