package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kinds returns services and endpoints, of the core group.
func Kinds() []kind.Row {
	v1 := corev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*corev1.Service]{
			Version:       v1,
			Plural:        "services",
			StoredAt:      "services/specs",
			ShortNames:    []string{"svc"},
			Categories:    []string{"all"},
			Filled:        true,
			Validate:      validateService,
			Status:        &kind.Status[*corev1.Service]{Validate: validateServiceStatus},
			PrepareCreate: kind.Edited(prepareService),
			PrepareUpdate: updateService,
			Connections: []resource.Connection{
				kind.Proxy(v1, func(options *corev1.ServiceProxyOptions) *string { return &options.Path }),
			},
			Table:      servicesTable(),
			Selectable: []kind.Selectable{kind.At("spec.clusterIP"), kind.At("spec.type")},
			Strategy: resource.Strategy{
				ValidateName:   validateServiceName,
				Claim:          DefaultRanges().Claim,
				Warnings:       warnOfService,
				CreateOnUpdate: true,
			},
			Deletion: resource.Deletion{
				ReturnsObject: true,
			},
		}.Row(),
		endpoints(endpointRules{}),
	}
}

// WithLoopback returns the kinds whose endpoints may also have loopback addresses: another form of
// those that Kinds and Discovery return.
func WithLoopback() []kind.Row {
	r := endpointRules{loopback: true}
	return []kind.Row{endpoints(r), endpointSlices(r)}
}

func endpoints(r endpointRules) kind.Row {
	return kind.Kind[*corev1.Endpoints]{
		Version:    corev1.SchemeGroupVersion,
		Plural:     "endpoints",
		StoredAt:   "services/endpoints",
		ShortNames: []string{"ep"},
		Filled:     true,
		Validate:   r.validateEndpoints,
		Table:      endpointsTable(),
		Strategy:   resource.Strategy{CreateOnUpdate: true, Warnings: warnOfEndpoints},
	}.Row()
}

// warnOfEndpoints warns of ambiguous IP addresses. Endpoints that the controller writes are not
// checked: it copies the addresses.
func warnOfEndpoints(obj, _ resource.Tree) []string {
	if kind.Text(obj, "metadata", "labels", "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
		return nil
	}
	var warnings []string
	for i, subset := range kind.Decoded[corev1.Endpoints](obj).Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			warnings = append(warnings, storage.AddressWarnings(path.Child("addresses").Index(j).Child("ip"), address.IP)...)
		}
		for j, address := range subset.NotReadyAddresses {
			warnings = append(warnings, storage.AddressWarnings(path.Child("notReadyAddresses").Index(j).Child("ip"), address.IP)...)
		}
	}
	return warnings
}
