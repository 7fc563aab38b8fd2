package schema

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kapok-dev/kapok/internal/object"
)

// allowed tells whether v is one of the values of an enum. Kubernetes converts v to the type of the allowed value where Go
// could, before it compares: numbers are cut down to integers, integers become floats or characters. Null is never allowed.
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

// notAllowed reports a value that an enum does not list.
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
