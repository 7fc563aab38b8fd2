package cluster

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Quotas returns resource quotas and limit ranges.
func Quotas() []kind.Row {
	v1 := corev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*corev1.LimitRange]{
			Version:    v1,
			Plural:     "limitranges",
			ShortNames: []string{"limits"},
			Defaults:   defaultLimits,
			Filled:     true,
			Validate:   validateLimitRange,
			PrepareCreate: func(obj resource.Tree) {
				if kind.Text(obj, "metadata", "name") == "" { // the only kind that accepts it
					kind.Put(obj, string(uuid.NewUUID()), "metadata", "name")
				}
			},
			Strategy: resource.Strategy{CreateOnUpdate: true},
		}.Row(),
		kind.Kind[*corev1.ResourceQuota]{
			Version:    v1,
			Plural:     "resourcequotas",
			ShortNames: []string{"quota"},
			Filled:     true,
			Validate:   validateResourceQuota,
			Status:     &kind.Status[*corev1.ResourceQuota]{Validate: validateResourceQuotaStatus},
			Table:      resourceQuotasTable(),
			Strategy:   resource.Strategy{Warnings: warnOfQuota},
			Deletion:   resource.Deletion{ReturnsObject: true},
		}.Row(),
	}
}

// defaultLimits turns an empty list into a missing one, as kube-apiserver's storage does.
func defaultLimits(limits *corev1.LimitRange) {
	if len(limits.Spec.Limits) == 0 {
		limits.Spec.Limits = nil
	}
}

// warnOfQuota warns, on create, of requests that cannot be used up because the limits are lower.
func warnOfQuota(obj, old resource.Tree) (warnings []string) {
	if old != nil {
		return nil
	}
	hard := kind.Decoded[corev1.ResourceQuota](obj).Spec.Hard
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		request, requested := hard[requests]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) { // the prefix is optional
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
