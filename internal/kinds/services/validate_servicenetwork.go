package services

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// A network is what a service requests: the family policy, the families and the addresses.
type network struct {
	Policy     *corev1.IPFamilyPolicy
	Families   []corev1.IPFamily
	ClusterIPs []string
}

// primary is the only family of cluster IPs. Kubernetes also supports clusters with two.
const primary = corev1.IPv4Protocol

// networkOf returns the completed network of a service, and the errors of requests that a cluster
// with one family cannot meet.
func networkOf(s, old *corev1.Service) (network, field.ErrorList) {
	n := network{s.Spec.IPFamilyPolicy, slices.Clone(s.Spec.IPFamilies), slices.Clone(s.Spec.ClusterIPs)}
	if s.Spec.Type == corev1.ServiceTypeExternalName || stillPrefersTwo(s, old) {
		return n, nil
	}
	free := s.Spec.ClusterIP == corev1.ClusterIPNone && len(s.Spec.Selector) == 0
	if n.Policy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			policy = *old.Spec.IPFamilyPolicy
		case free: // its endpoints are not the cluster's, and may be of both families
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		n.Policy = &policy
	}
	filled := s.DeepCopy()
	filled.Spec.IPFamilyPolicy = n.Policy
	if errs := validateClusterIPs(filled, old); len(errs) > 0 {
		return n, errs
	}
	errs := n.reconcile(old)
	errs = append(errs, n.infer()...)
	if len(errs) > 0 {
		return n, errs
	}
	if free {
		n.fillFree()
		return n, nil
	}
	path := field.NewPath("spec")
	if *n.Policy == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), n.Policy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range n.Families {
		if family != primary {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	if len(errs) == 0 && len(n.Families) == 0 {
		n.Families = []corev1.IPFamily{primary}
	}
	return n, errs
}

// stillPrefersTwo reports whether an update keeps the families and addresses of a service with
// PreferDualStack.
func stillPrefersTwo(s, old *corev1.Service) bool {
	return old != nil && s.Spec.IPFamilyPolicy != nil && s.Spec.Type == old.Spec.Type &&
		*s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack &&
		(old.Spec.IPFamilyPolicy == nil || *old.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// reconcile checks that policy, families and addresses agree, and drops the second ones of a
// service that becomes single stack.
func (n *network) reconcile(old *corev1.Service) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("spec", "ipFamilyPolicy")
	single := *n.Policy == corev1.IPFamilyPolicySingleStack
	if old != nil && single {
		if len(n.ClusterIPs) > 1 && slices.Equal(n.ClusterIPs, old.Spec.ClusterIPs) {
			n.ClusterIPs = n.ClusterIPs[:1]
		}
		if len(n.Families) > 1 && slices.Equal(n.Families, old.Spec.IPFamilies) {
			n.Families = n.Families[:1]
		}
	}
	if old != nil && !single {
		if len(n.ClusterIPs) > 0 && len(n.ClusterIPs) < len(old.Spec.ClusterIPs) {
			all = append(all, field.Invalid(path, n.Policy, "must be 'SingleStack' to release the secondary cluster IP"))
		}
		if len(n.Families) > 0 && len(n.Families) < len(old.Spec.IPFamilies) {
			all = append(all, field.Invalid(path, n.Policy, "must be 'SingleStack' to release the secondary IP family"))
		}
	}
	if single && len(n.ClusterIPs) == 2 {
		all = append(all, field.Invalid(path, n.Policy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if single && len(n.Families) == 2 {
		all = append(all, field.Invalid(path, n.Policy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	return all
}

// infer sets the families from the addresses.
func (n *network) infer() field.ErrorList {
	var all field.ErrorList
	for i, ip := range n.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		family := corev1.IPv4Protocol
		if netutils.IsIPv6String(ip) {
			family = corev1.IPv6Protocol
		}
		switch {
		case i < len(n.Families):
		case family == primary:
			n.Families = append(n.Families, family)
		default:
			all = append(all, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), n.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
		}
	}
	return all
}

// fillFree sets the families of a headless service without a selector from its policy alone.
func (n *network) fillFree() {
	if len(n.Families) == 0 {
		n.Families = []corev1.IPFamily{primary}
	}
	if len(n.Families) > 1 || *n.Policy == corev1.IPFamilyPolicySingleStack {
		return
	}
	other := corev1.IPv6Protocol
	if n.Families[0] == other {
		other = corev1.IPv4Protocol
	}
	n.Families = append(n.Families, other)
}

// validateClusterIPs returns the errors of addresses, families and policy, each and in combination.
func validateClusterIPs(s, old *corev1.Service) field.ErrorList {
	spec := &s.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var all field.ErrorList
	ips, families := field.NewPath("spec", "clusterIPs"), field.NewPath("spec", "ipFamilies")
	switch {
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		all = append(all, field.Required(ips, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		all = append(all, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		all = append(all, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	}
	repeats := rule.Repeats[corev1.IPFamily]()
	for i, family := range spec.IPFamilies {
		all = append(all, rule.Supported(families.Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if repeats(family) {
			all = append(all, field.Duplicate(families.Index(i), family))
		}
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		all = append(all, rule.Supported(field.NewPath("spec", "ipFamilyPolicy"), *policy,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	var before []string
	if old != nil {
		before = old.Spec.ClusterIPs
	}
	found := len(all)
	for i, ip := range spec.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				all = append(all, field.Invalid(ips, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		all = append(all, validation.IsValidIPForLegacyField(ips.Index(i), ip, true, before)...)
	}
	bad := len(all) > found
	if len(spec.ClusterIPs) > 2 {
		all = append(all, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if bad {
		return all
	}
	if len(spec.ClusterIPs) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err != nil || !dual {
			all = append(all, field.Invalid(ips, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if headless(s) {
		return all
	}
	for i := range min(len(spec.ClusterIPs), len(spec.IPFamilies)) {
		ip, family := spec.ClusterIPs[i], spec.IPFamilies[i]
		known := family == corev1.IPv4Protocol || family == corev1.IPv6Protocol
		if known && netutils.IsIPv6String(ip) != (family == corev1.IPv6Protocol) {
			all = append(all, field.Invalid(ips.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i)))
		}
	}
	return all
}

// validateNetworkUpdate rejects changes of the first address and its family, except for services
// that have no cluster IP before or after the update.
func validateNetworkUpdate(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName || headless(s) && headless(old) {
		return nil
	}
	var all field.ErrorList
	path, policy := field.NewPath("spec"), s.Spec.IPFamilyPolicy
	single := policy != nil && *policy == corev1.IPFamilyPolicySingleStack
	const once = "may not change once set"

	now, before := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	ips := path.Child("clusterIPs")
	if len(now) == len(before) {
		for i := range before {
			if now[i] != before[i] {
				all = append(all, field.Invalid(ips.Index(i), now, once))
			}
		}
	} else {
		if len(now) == 0 {
			all = append(all, field.Invalid(ips.Index(0), now, "primary clusterIP can not be unset"))
		}
		if len(now) > 0 && len(before) > 0 && now[0] != before[0] {
			all = append(all, field.Invalid(ips.Index(0), now, once))
		}
		if len(before) > len(now) && len(now) == 1 && !single {
			all = append(all, field.Invalid(path.Child("ipFamilyPolicy"), policy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
		}
	}
	if headless(s) != headless(old) {
		return all
	}

	families, were := s.Spec.IPFamilies, old.Spec.IPFamilies
	at := path.Child("ipFamilies").Index(0)
	if len(families) == len(were) {
		for i := range were {
			if families[i] != were[i] {
				all = append(all, field.Invalid(at, families, once))
			}
		}
		return all
	}
	if len(were) > len(families) && len(now) == 0 {
		all = append(all, field.Invalid(at, families, "primary ipFamily can not be unset"))
	}
	if len(families) > 0 && len(were) > 0 && families[0] != were[0] {
		all = append(all, field.Invalid(at, now, once))
	}
	if len(were) > len(families) && len(families) == 1 && !single {
		all = append(all, field.Invalid(path.Child("ipFamilyPolicy"), policy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return all
}

// validateRepeatedNodePorts rejects duplicate node ports in a new service. The same port under two
// protocols may share one.
func validateRepeatedNodePorts(s, old *corev1.Service) field.ErrorList {
	if old != nil || s.Spec.Type != corev1.ServiceTypeNodePort && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	taken, of := map[int32]bool{}, map[int32]int32{}
	for i, port := range s.Spec.Ports {
		switch {
		case port.NodePort == 0 || of[port.Port] == port.NodePort:
			continue
		case taken[port.NodePort]:
			return field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, "provided port is already allocated")}
		}
		taken[port.NodePort] = true
		if of[port.Port] == 0 {
			of[port.Port] = port.NodePort
		}
	}
	return nil
}
