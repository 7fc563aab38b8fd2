package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// services has the kinds in the group "" through which pods are reached.
func services() []row {
	v1 := corev1.SchemeGroupVersion
	return []row{
		kind[corev1.Service]{
			version:       v1,
			plural:        "services",
			shortNames:    []string{"svc"},
			absent:        map[string]string{"proxy": "nobody listens there: a service is an object, and no pod runs behind it"},
			categories:    []string{"all"},
			defaults:      fill[corev1.Service],
			validate:      validation.Service,
			status:        &status[corev1.Service]{validate: validation.ServiceStatus},
			prepareCreate: edited(prepareService),
			prepareUpdate: updateService,
			table:         tables.Services(),
			selectable:    []selectable{at("spec.clusterIP"), at("spec.type")},
			hooks: resource.Hooks{
				ValidateName:        validation.ServiceName,
				Claim:               defaultRanges().claim,
				Warnings:            warnOfService,
				CreateOnUpdate:      true,
				DeleteReturnsObject: true,
			},
		}.row(),
		kind[corev1.Endpoints]{
			version:    v1,
			plural:     "endpoints",
			shortNames: []string{"ep"},
			defaults:   fill[corev1.Endpoints],
			validate:   validation.Endpoints,
			table:      tables.Endpoints(),
			hooks:      resource.Hooks{CreateOnUpdate: true, Warnings: warnOfEndpoints},
		}.row(),
	}
}

// warnOfEndpoints warns of addresses that not everybody reads alike. The controller
// that makes endpoints copies those of others.
func warnOfEndpoints(obj, _ resource.Tree) []string {
	if text(obj, "metadata", "labels", "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
		return nil
	}
	var warnings []string
	for i, subset := range decoded[corev1.Endpoints](obj).Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			warnings = append(warnings, kvalidation.GetWarningsForIP(path.Child("addresses").Index(j).Child("ip"), address.IP)...)
		}
		for j, address := range subset.NotReadyAddresses {
			warnings = append(warnings, kvalidation.GetWarningsForIP(path.Child("notReadyAddresses").Index(j).Child("ip"), address.IP)...)
		}
	}
	return warnings
}
