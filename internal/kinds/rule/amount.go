package rule

import (
	"strconv"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateShare rejects shares above 100%.
func ValidateShare(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.String && Amount(n) > 100 {
		return field.ErrorList{field.Invalid(path, n, "must not be greater than 100%")}
	}
	return nil
}

// ValidateAmount accepts a number of pods, or a share in percent.
func ValidateAmount(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.String {
		return Invalid(path, n, validation.IsValidPercent(n.StrVal))
	}
	return apivalidation.ValidateNonnegativeField(int64(n.IntVal), path)
}

// Amount returns the number, of pods or percent; 0 if it is not valid.
func Amount(n intstr.IntOrString) int {
	if n.Type == intstr.String {
		value, _ := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%"))
		return value
	}
	return int(n.IntVal)
}
