package pods

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateKnownResource accepts names of resources that Kubernetes knows or that are qualified.
func ValidateKnownResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if all := rule.Invalid(at, name, validation.IsQualifiedName(string(name))); len(all) > 0 {
		return all
	}
	if !rule.Qualified(string(name)) && !isStandard(name) {
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// ValidateQuotaResource accepts names of resources that a quota can limit.
func ValidateQuotaResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	all := ValidateKnownResource(name, at)
	if !rule.Qualified(string(name)) && !IsQuotaResource(name) {
		all = append(all, field.Invalid(at, name, "must be a standard resource for quota"))
	}
	return all
}

// ValidateContainerResource accepts names of resources that containers can request.
func ValidateContainerResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	return append(ValidateKnownResource(name, at), validateNativeContainerResource(name, at)...)
}

// ValidateQuantity returns the errors of the quantity of a resource.
func ValidateQuantity(name corev1.ResourceName, quantity resource.Quantity, at *field.Path) field.ErrorList {
	all := rule.ValidateNotNegative(quantity, at)
	if isCounted(name) && quantity.MilliValue()%1000 != 0 {
		all = append(all, field.Invalid(at, quantity, rule.NotInteger))
	}
	return all
}

// IsQuotaResource reports whether a quota can limit the resource.
func IsQuotaResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return isObjectCount(name) || isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}
