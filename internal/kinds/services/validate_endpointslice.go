package services

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// validateEndpointSlice returns the errors of a slice; endpoints that have not changed are not
// checked. Errors of Kubernetes' declarative rules come last.
func (r endpointRules) validateEndpointSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	all := validateSlicePorts(s.Ports, field.NewPath("ports"))
	kind, endpoints := field.NewPath("addressType"), field.NewPath("endpoints")
	changed := old == nil || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints)
	if changed {
		all = append(all, r.validateSliceEndpoints(s, endpoints)...)
	}
	if old == nil || s.AddressType != old.AddressType {
		all = append(all, rule.OneOf(kind, s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	}
	if old != nil && s.AddressType != old.AddressType {
		all = append(all, field.Invalid(kind, nil, apivalidation.FieldImmutableErrorMsg))
	}
	if changed {
		all = append(all, validateAddressCounts(s, endpoints)...)
	}
	return all
}

func validateAddressCounts(s *discoveryv1.EndpointSlice, path *field.Path) field.ErrorList {
	const most = 100
	var all field.ErrorList
	for i := range s.Endpoints {
		at := path.Index(i).Child("addresses")
		if n := len(s.Endpoints[i].Addresses); n == 0 {
			all = append(all, field.Required(at, ""))
		} else if n > most {
			all = append(all, field.TooMany(at, n, most))
		}
	}
	return all
}

func validateSlicePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	const most = 20000
	if len(ports) > most {
		return field.ErrorList{field.TooMany(path, len(ports), most)}
	}
	var all field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		at := path.Index(i)
		if *port.Name != "" {
			all = append(all, rule.ValidateLabel(at.Child("name"), *port.Name)...)
		}
		if names[*port.Name] {
			all = append(all, field.Duplicate(at.Child("name"), port.Name))
		}
		names[*port.Name] = true
		if port.Protocol == nil {
			all = append(all, field.Required(at.Child("protocol"), ""))
		} else {
			all = append(all, rule.Supported(at.Child("protocol"), *port.Protocol, "SCTP", "TCP", "UDP")...)
		}
		if port.AppProtocol != nil {
			all = append(all, rule.ValidateQualifiedName(at.Child("appProtocol"), *port.AppProtocol)...)
		}
	}
	return all
}

func (r endpointRules) validateSliceEndpoints(s *discoveryv1.EndpointSlice, path *field.Path) field.ErrorList {
	const most = 1000
	if len(s.Endpoints) > most {
		return field.ErrorList{field.TooMany(path, len(s.Endpoints), most)}
	}
	var all field.ErrorList
	for i := range s.Endpoints {
		endpoint, at := &s.Endpoints[i], path.Index(i)
		addresses := at.Child("addresses")
		for i, address := range endpoint.Addresses {
			all = append(all, r.validateSliceAddress(s.AddressType, address, addresses, i)...)
		}
		if node := endpoint.NodeName; node != nil {
			all = append(all, rule.Invalid(at.Child("nodeName"), *node, apivalidation.NameIsDNSSubdomain(*node, false))...)
		}
		all = append(all, metav1validation.ValidateLabels(endpoint.DeprecatedTopology, at.Child("deprecatedTopology"))...)
		if endpoint.Hostname != nil {
			all = append(all, rule.ValidateLabel(at.Child("hostname"), *endpoint.Hostname)...)
		}
		if endpoint.Hints != nil {
			all = append(all, validateHints(endpoint.Hints, at.Child("hints"))...)
		}
	}
	return all
}

// validateSliceAddress returns the errors of an address of the given type. An unknown type is
// reported elsewhere.
func (r endpointRules) validateSliceAddress(kind discoveryv1.AddressType, address string, list *field.Path, i int) field.ErrorList {
	var all field.ErrorList
	path, six := list.Index(i), kind == discoveryv1.AddressTypeIPv6
	switch kind {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	case discoveryv1.AddressTypeIPv4:
		all = validation.IsValidIPForLegacyField(path, address, true, nil)
	case discoveryv1.AddressTypeIPv6:
		all = validation.IsValidIP(path, address)
	default:
		return nil
	}
	if len(all) > 0 {
		return all
	}
	if netutils.IsIPv6String(address) != six {
		all = append(all, field.Invalid(list, address, "must be an "+string(kind)+" address"))
	}
	return append(all, r.validateIP(address, path)...)
}

func validateHints(hints *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	const most = 8
	var all field.ErrorList
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(hints.ForZones) > most {
		return field.ErrorList{field.TooMany(zones, len(hints.ForZones), most)}
	}
	var names []string
	for i, zone := range hints.ForZones {
		at := zones.Index(i).Child("name")
		if slices.Contains(names, zone.Name) {
			all = append(all, field.Duplicate(at, zone.Name))
		}
		names = append(names, zone.Name)
		all = append(all, rule.Invalid(at, zone.Name, validation.IsValidLabelValue(zone.Name))...)
	}
	if len(hints.ForNodes) > most {
		return append(all, field.TooMany(nodes, len(hints.ForNodes), most))
	}
	names = nil
	for i, node := range hints.ForNodes {
		at := nodes.Index(i).Child("name")
		if slices.Contains(names, node.Name) {
			all = append(all, field.Duplicate(at, node.Name))
		}
		names = append(names, node.Name)
		all = append(all, rule.Invalid(at, node.Name, apivalidation.NameIsDNSSubdomain(node.Name, false))...)
	}
	return all
}
