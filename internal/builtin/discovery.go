package builtin

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// discovery has group discovery.k8s.io.
func discovery() []row {
	return []row{
		kind[discoveryv1.EndpointSlice]{
			version:    discoveryv1.SchemeGroupVersion,
			plural:     "endpointslices",
			defaults:   fill[discoveryv1.EndpointSlice],
			validate:   validation.EndpointSlice,
			generation: []string{"metadata.labels", "addressType", "endpoints", "ports"},
			// Topology is what v1beta1 had instead of nodes and zones.
			prepareCreate: func(obj resource.Tree) { dropTopology(obj, nil) },
			prepareUpdate: dropTopology,
			table:         tables.EndpointSlices(),
			retired: []another[discoveryv1.EndpointSlice]{
				in[discoveryv1.EndpointSlice, discoveryv1beta1.EndpointSlice](discoveryv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnOfEndpointSlice},
		}.row(),
	}
}

// dropTopology removes the topology of endpoints that a client writes. Where it named
// the node of an endpoint of before, the node stays known.
func dropTopology(obj, old resource.Tree) {
	endpoints, _ := obj["endpoints"].([]any)
	if reflect.DeepEqual(obj["endpoints"], old["endpoints"]) {
		return
	}
	nodes := map[string]bool{}
	before, _ := old["endpoints"].([]any)
	for _, e := range before {
		endpoint, _ := e.(resource.Tree)
		nodes[text(endpoint, "deprecatedTopology", corev1.LabelHostname)] = true
	}
	delete(nodes, "")
	for _, e := range endpoints {
		endpoint, ok := e.(resource.Tree)
		if !ok {
			continue
		}
		if node := text(endpoint, "deprecatedTopology", corev1.LabelHostname); endpoint["nodeName"] == nil && nodes[node] && len(kvalidation.IsDNS1123Subdomain(node)) == 0 {
			endpoint["nodeName"] = node
		}
		delete(endpoint, "deprecatedTopology")
	}
}

// warnOfEndpointSlice warns of names for addresses, and of addresses that not
// everybody reads alike. Controllers copy those of others.
func warnOfEndpointSlice(obj, old resource.Tree) []string {
	var warnings []string
	slice := decoded[discoveryv1.EndpointSlice](obj)
	if old == nil && slice.AddressType == discoveryv1.AddressTypeFQDN {
		warnings = append(warnings, "spec.addressType: FQDN endpoints are deprecated")
	}
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return warnings
	}
	switch slice.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return warnings
	}
	for i, endpoint := range slice.Endpoints {
		for j, address := range endpoint.Addresses {
			warnings = append(warnings, kvalidation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), address)...)
		}
	}
	return warnings
}
