package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// validateIPAddressName returns the errors of a name, which is the address in canonical form. It is
// never generated, and so has no prefix.
func validateIPAddressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

// validateIPAddress returns the errors of an IPAddress. Required and immutable fields come last:
// they are Kubernetes' declarative rules.
func validateIPAddress(a, old *networkingv1.IPAddress) field.ErrorList {
	var all, declared field.ErrorList
	ref, path := a.Spec.ParentRef, field.NewPath("spec", "parentRef")
	changed := old != nil && !equality.Semantic.DeepEqual(ref, old.Spec.ParentRef)
	if ref == nil {
		declared = append(declared, field.Required(path, ""))
	} else {
		all = append(all, invalidIfSet(path.Child("group"), ref.Group, validation.IsDNS1123Subdomain)...)
		all = append(all, invalidIfSet(path.Child("resource"), ref.Resource, content.IsPathSegmentName)...)
		all = append(all, invalidIfSet(path.Child("name"), ref.Name, content.IsPathSegmentName)...)
		all = append(all, invalidIfSet(path.Child("namespace"), ref.Namespace, content.IsPathSegmentName)...)
	}
	if changed {
		return append(append(all, declared...), field.Invalid(path, nil, apivalidation.FieldImmutableErrorMsg))
	}
	if ref != nil && ref.Resource == "" {
		declared = append(declared, field.Required(path.Child("resource"), ""))
	}
	if ref != nil && ref.Name == "" {
		declared = append(declared, field.Required(path.Child("name"), ""))
	}
	return append(all, declared...)
}

func invalidIfSet(path *field.Path, text string, check func(string) []string) field.ErrorList {
	if text == "" {
		return nil
	}
	return rule.Invalid(path, text, check(text))
}

// validateServiceCIDR accepts one change: a second range, of the other family.
func validateServiceCIDR(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	path, now := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	if old == nil {
		return validateCIDRs(c, path)
	}
	before := old.Spec.CIDRs
	grows := len(before) == 1 && len(now) == 2
	if len(now) != len(before) && !grows {
		return field.ErrorList{field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg)}
	}
	var all field.ErrorList
	for i := range before {
		if now[i] != before[i] {
			all = append(all, field.Invalid(path.Index(i), now[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if grows {
		all = append(all, validateCIDRs(c, path)...)
	}
	return all
}

func validateCIDRs(c *networkingv1.ServiceCIDR, path *field.Path) field.ErrorList {
	cidrs := c.Spec.CIDRs
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(cidrs) > 2:
		return field.ErrorList{field.Invalid(path, rule.AsInternal(&c.Spec), "may only hold up to 2 values")}
	}
	var all field.ErrorList
	for i, cidr := range cidrs {
		all = append(all, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(cidrs) == 2 {
		family := netutils.IPFamilyOfCIDRString(cidrs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(cidrs[1]) {
			all = append(all, field.Invalid(path, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return all
}

// validateServiceCIDRStatus accepts every status.
func validateServiceCIDRStatus(_, _ *networkingv1.ServiceCIDR) field.ErrorList { return nil }
