package builtin

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// quotas has what bounds the use of a namespace.
func quotas() []row {
	v1 := corev1.SchemeGroupVersion
	return []row{
		kind[corev1.LimitRange]{
			version:    v1,
			plural:     "limitranges",
			shortNames: []string{"limits"},
			defaults:   defaultLimits,
			validate:   validation.LimitRange,
			prepareCreate: func(obj resource.Tree) {
				if text(obj, "metadata", "name") == "" { // the only kind of which that is accepted
					put(obj, string(uuid.NewUUID()), "metadata", "name")
				}
			},
			hooks: resource.Hooks{CreateOnUpdate: true},
		}.row(),
		kind[corev1.ResourceQuota]{
			version:    v1,
			plural:     "resourcequotas",
			shortNames: []string{"quota"},
			defaults:   fill[corev1.ResourceQuota],
			validate:   validation.ResourceQuota,
			status:     &status[corev1.ResourceQuota]{validate: validation.ResourceQuotaStatus},
			table:      tables.ResourceQuotas(),
			hooks:      resource.Hooks{Warnings: warnOfQuota, DeleteReturnsObject: true},
		}.row(),
	}
}

// defaultLimits shows an empty list as none, as it comes out of Kubernetes' store.
func defaultLimits(limits *corev1.LimitRange) {
	if len(limits.Spec.Limits) == 0 {
		limits.Spec.Limits = nil
	}
	fill(limits)
}

// warnOfQuota warns, on create, of requests that cannot be used up because limits are lower.
func warnOfQuota(obj, old resource.Tree) (warnings []string) {
	if old != nil {
		return nil
	}
	hard := decoded[corev1.ResourceQuota](obj).Spec.Hard
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		request, requested := hard[requests]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) { // whose prefix may be left out
			requests = name
			request, requested = hard[name]
		}
		limit, limited := hard[limits]
		if requested && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)", requests, request.String(), limits, limit.String()))
		}
	}
	return warnings
}
