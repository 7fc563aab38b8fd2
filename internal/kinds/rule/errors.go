package rule

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Invalid returns an error for each message of a check of apimachinery.
func Invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var all field.ErrorList
	for _, message := range messages {
		all = append(all, field.Invalid(path, value, message))
	}
	return all
}

// Join returns the messages of one check as one.
func Join(messages []string) string { return strings.Join(messages, ";") }

// ValidateImmutable is apimachinery's ValidateImmutableField for the types of k8s.io/api.
func ValidateImmutable(now, before any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, AsInternal(now), apivalidation.FieldImmutableErrorMsg)}
}

// Immutable is the error of a field that must not change; it does not show the value.
func Immutable(at *field.Path) field.ErrorList {
	return field.ErrorList{field.Invalid(at, nil, apivalidation.FieldImmutableErrorMsg)}
}
