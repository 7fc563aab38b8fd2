package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	notPositive = "must be greater than zero"
	notInteger  = "must be an integer"
)

// validateKnownResource accepts the names of resources that Kubernetes knows, and those that say whose they are.
func validateKnownResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if all := invalid(at, name, validation.IsQualifiedName(string(name))); len(all) > 0 {
		return all
	}
	if !qualified(string(name)) && !isStandard(name) {
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// validateQuotaResource accepts resources of which use is counted.
func validateQuotaResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	all := validateKnownResource(name, at)
	if !qualified(string(name)) && !isQuotaResource(name) {
		all = append(all, field.Invalid(at, name, "must be a standard resource for quota"))
	}
	return all
}

// validateOfContainer accepts resources that containers may ask for.
func validateOfContainer(name corev1.ResourceName, at *field.Path) field.ErrorList {
	return append(validateKnownResource(name, at), validateContainerResource(name, at)...)
}

// validateQuantity judges how much there is of a resource.
func validateQuantity(name corev1.ResourceName, quantity resource.Quantity, at *field.Path) field.ErrorList {
	all := validateNotNegative(quantity, at)
	if isCounted(name) && quantity.MilliValue()%1000 != 0 {
		all = append(all, field.Invalid(at, quantity, notInteger))
	}
	return all
}

func validateNotNegative(quantity resource.Quantity, at *field.Path) field.ErrorList {
	if quantity.Sign() < 0 {
		return field.ErrorList{field.Invalid(at, quantity.String(), apivalidation.IsNegativeErrorMsg)}
	}
	return nil
}

func validatePositiveQuantity(quantity resource.Quantity, at *field.Path) field.ErrorList {
	if quantity.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, quantity.String(), notPositive)}
	}
	return nil
}

func isQuotaResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return isObjectCount(name) || isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}
