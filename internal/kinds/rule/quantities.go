package rule

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules about quantities, in Kubernetes' words.
const (
	NotPositive = "must be greater than zero"
	NotInteger  = "must be an integer"
)

// ValidateNotNegative rejects quantities below zero.
func ValidateNotNegative(quantity resource.Quantity, at *field.Path) field.ErrorList {
	if quantity.Sign() < 0 {
		return field.ErrorList{field.Invalid(at, quantity.String(), apivalidation.IsNegativeErrorMsg)}
	}
	return nil
}

// ValidatePositiveQuantity rejects quantities of zero and below.
func ValidatePositiveQuantity(quantity resource.Quantity, at *field.Path) field.ErrorList {
	if quantity.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, quantity.String(), NotPositive)}
	}
	return nil
}

// IsNative reports whether a resource is one of Kubernetes' own.
func IsNative(name corev1.ResourceName) bool {
	return !Qualified(string(name)) || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}
