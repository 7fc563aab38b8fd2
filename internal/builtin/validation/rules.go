package validation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid turns what a check of apimachinery says into errors.
func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var all field.ErrorList
	for _, message := range messages {
		all = append(all, field.Invalid(path, value, message))
	}
	return all
}

// oneOf accepts the supported values, and nothing else.
func oneOf[V ~string](path *field.Path, value V, supported ...V) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// validateImmutable is ValidateImmutableField for the types of k8s.io/api.
func validateImmutable(now, before any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, asInternal(now), apivalidation.FieldImmutableErrorMsg)}
}

func validateLabelled(path *field.Path, value string) field.ErrorList {
	return invalid(path, value, validation.IsDNS1123Label(value))
}

func validateQualified(path *field.Path, value string) field.ErrorList {
	return invalid(path, value, validation.IsQualifiedName(value))
}

// qualified says whether a name has a prefix that tells whose it is.
func qualified(name string) bool { return strings.Contains(name, "/") }

func isTrue(b *bool) bool { return b != nil && *b }

// join puts the messages of one check into one.
func join(messages []string) string { return strings.Join(messages, ";") }

// supported is oneOf where "" is as wrong as any other value.
func supported[V ~string](path *field.Path, value V, known ...V) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}
