package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// memberOf accepts the supported values only, which nothing may be one of.
func memberOf[V ~string](at *field.Path, value V, supported ...V) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, supported)}
}
