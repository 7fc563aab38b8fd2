package services

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Discovery returns the kinds of group discovery.k8s.io.
func Discovery() []kind.Row {
	return []kind.Row{endpointSlices(endpointRules{})}
}

func endpointSlices(r endpointRules) kind.Row {
	return kind.Kind[*discoveryv1.EndpointSlice]{
		Version:    discoveryv1.SchemeGroupVersion,
		Plural:     "endpointslices",
		Filled:     true,
		Validate:   r.validateEndpointSlice,
		Generation: []string{"metadata.labels", "addressType", "endpoints", "ports"},
		// v1beta1 has topology labels instead of nodes and zones.
		PrepareCreate: func(obj resource.Tree) { dropTopology(obj, nil) },
		PrepareUpdate: dropTopology,
		Table:         endpointSlicesTable(),
		Retired: []kind.Another[*discoveryv1.EndpointSlice]{
			kind.In[*discoveryv1.EndpointSlice, *discoveryv1beta1.EndpointSlice](discoveryv1beta1.SchemeGroupVersion),
		},
		Strategy: resource.Strategy{Warnings: warnOfEndpointSlice},
	}.Row()
}

// dropTopology removes topology labels that a client writes. If they named the node of an existing
// endpoint, its node is kept.
func dropTopology(obj, old resource.Tree) {
	endpoints, _ := obj["endpoints"].([]any)
	if reflect.DeepEqual(obj["endpoints"], old["endpoints"]) {
		return
	}
	nodes := map[string]bool{}
	before, _ := old["endpoints"].([]any)
	for _, e := range before {
		endpoint, _ := e.(resource.Tree)
		nodes[kind.Text(endpoint, "deprecatedTopology", corev1.LabelHostname)] = true
	}
	delete(nodes, "")
	for _, e := range endpoints {
		endpoint, ok := e.(resource.Tree)
		if !ok {
			continue
		}
		if node := kind.Text(endpoint, "deprecatedTopology", corev1.LabelHostname); endpoint["nodeName"] == nil && nodes[node] && len(kvalidation.IsDNS1123Subdomain(node)) == 0 {
			endpoint["nodeName"] = node
		}
		delete(endpoint, "deprecatedTopology")
	}
}

// warnOfEndpointSlice warns of FQDN addresses and of ambiguous IP addresses. Slices that
// controllers mirror are not checked.
func warnOfEndpointSlice(obj, old resource.Tree) []string {
	var warnings []string
	slice := kind.Decoded[discoveryv1.EndpointSlice](obj)
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
			warnings = append(warnings, storage.AddressWarnings(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), address)...)
		}
	}
	return warnings
}
