package rule

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RequireText rejects the empty string.
func RequireText(s string, at *field.Path) field.ErrorList {
	if s != "" {
		return nil
	}
	return field.ErrorList{field.Required(at, "")}
}

// OneOf accepts the supported values only; for the empty value the error is Required.
func OneOf[V ~string](path *field.Path, value V, supported ...V) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Supported(path, value, supported...)
}

// Supported accepts the supported values only; for all others the error is NotSupported.
func Supported[V ~string](path *field.Path, value V, supported ...V) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// ValidateStarAlone rejects values beside "*". In the error they are called what.
func ValidateStarAlone(values []string, what string, at *field.Path) field.ErrorList {
	if len(values) < 2 || !slices.Contains(values, "*") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, values, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
}

// IsTrue reports whether b is set and true.
func IsTrue(b *bool) bool { return b != nil && *b }
