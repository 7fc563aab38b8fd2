package services

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// endpointRules are the rules for the addresses of endpoints that depend on the server.
type endpointRules struct {
	loopback bool // loopback addresses are valid, which Kubernetes rejects
}

// validateEndpoints returns the errors of endpoints; subsets that have not changed are not checked.
func (r endpointRules) validateEndpoints(e, old *corev1.Endpoints) field.ErrorList {
	var all field.ErrorList
	for i := range e.Subsets {
		all = append(all, r.validateSubset(&e.Subsets[i], field.NewPath("subsets").Index(i))...)
	}
	if len(all) > 0 && old != nil && equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
		return nil
	}
	return all
}

func (r endpointRules) validateSubset(subset *corev1.EndpointSubset, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
		all = append(all, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
	}
	for i := range subset.Addresses {
		all = append(all, r.validateEndpointAddress(&subset.Addresses[i], path.Child("addresses").Index(i))...)
	}
	for i := range subset.NotReadyAddresses {
		all = append(all, r.validateEndpointAddress(&subset.NotReadyAddresses[i], path.Child("notReadyAddresses").Index(i))...)
	}
	for i := range subset.Ports {
		port, at := &subset.Ports[i], path.Child("ports").Index(i)
		if port.Name != "" {
			all = append(all, rule.ValidateLabel(at.Child("name"), port.Name)...)
		} else if len(subset.Ports) > 1 {
			all = append(all, field.Required(at.Child("name"), ""))
		}
		all = append(all, rule.Invalid(at.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))...)
		all = append(all, validateProtocol(at.Child("protocol"), port.Protocol)...)
		if port.AppProtocol != nil {
			all = append(all, rule.ValidateQualifiedName(at.Child("appProtocol"), *port.AppProtocol)...)
		}
	}
	return all
}

func (r endpointRules) validateEndpointAddress(address *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	all := validation.IsValidIPForLegacyField(path.Child("ip"), address.IP, true, nil)
	if address.Hostname != "" {
		all = append(all, rule.ValidateLabel(path.Child("hostname"), address.Hostname)...)
	}
	if node := address.NodeName; node != nil {
		all = append(all, rule.Invalid(path.Child("nodeName"), *node, apivalidation.NameIsDNSSubdomain(*node, false))...)
	}
	return append(all, r.validateIP(address.IP, path.Child("ip"))...)
}

// validateIP rejects addresses that are local to a machine.
func (r endpointRules) validateIP(address string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		return field.ErrorList{field.Invalid(path, address, "must be a valid IP address")}
	}
	var all field.ErrorList
	for _, special := range []struct {
		is      bool
		message string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%s)", address)},
		{ip.IsLoopback() && !r.loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if special.is {
			all = append(all, field.Invalid(path, address, special.message))
		}
	}
	return all
}

func isIP(text string) bool { return netutils.ParseIPSloppy(text) != nil }
