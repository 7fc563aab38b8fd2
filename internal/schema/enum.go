package schema

import (
	"encoding/json"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allowed reports whether v is one of the values of an enum. Before the comparison, Kubernetes
// converts v to the type of the allowed value if Go can convert it: numbers are truncated to
// integers, and integers become floats or characters. Null is never allowed.
func allowed(v any, values []any) bool {
	for _, a := range values {
		switch a := a.(type) {
		case string:
			switch v := v.(type) {
			case string:
				if v == a {
					return true
				}
			case int64:
				if character(v) == a {
					return true
				}
			}
		case int64:
			switch v := v.(type) {
			case int64:
				if v == a {
					return true
				}
			case float64:
				if int64(v) == a {
					return true
				}
			}
		case float64:
			switch v := v.(type) {
			case int64:
				if float64(v) == a {
					return true
				}
			case float64:
				if v == a {
					return true
				}
			}
		case nil:
		default:
			if object.Equal(v, a) {
				return true
			}
		}
	}
	return false
}

func character(i int64) string {
	if int64(rune(i)) != i {
		return "\uFFFD"
	}
	return string(rune(i))
}

// notAllowed reports an error if an enum does not contain the value.
func (r *report) notAllowed(at *path, v any, values []any) bool {
	names := make([]string, 0, len(values))
	for _, a := range values {
		if s, ok := a.(string); ok {
			names = append(names, s)
			continue
		}
		b, _ := json.Marshal(a)
		names = append(names, string(b))
	}
	return r.add(at.name(), "should be one of %v", []any{values}, field.NotSupported(nil, v, names))
}
