package crd

import (
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// coerceMetadata brings the metadata of an object into the form of ObjectMeta: it drops unknown
// fields, and appends them to unknown unless it is nil; malformed fields are an error. Metadata in
// canonical form, the usual case, is found by a look at the tree; all other passes through the Go
// type.
func coerceMetadata(obj resource.Tree, unknown *[]string) error {
	metadata, found := obj["metadata"]
	if !found {
		return nil
	}
	if m, ok := metadata.(map[string]any); ok && isCanonical(m) {
		return nil
	}
	data, err := object.AppendJSON(nil, metadata)
	if err != nil {
		return err
	}
	typed := &metav1.ObjectMeta{}
	if unknown == nil {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, typed); err != nil {
			return err
		}
	} else {
		dropped, err := kjson.UnmarshalStrict(data, typed)
		if err != nil {
			return err
		}
		for _, err := range dropped {
			if at := kjson.FieldError(nil); errors.As(err, &at) {
				*unknown = append(*unknown, "metadata."+at.FieldPath())
			}
		}
	}
	coerced, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	obj["metadata"] = coerced
	return nil
}

// isCanonical reports whether decoding into ObjectMeta would not change the metadata. False
// negatives are allowed.
func isCanonical(m map[string]any) bool {
	for key, value := range m {
		ok := false
		switch key {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			ok = isText(value)
		case "generation", "deletionGracePeriodSeconds":
			n, isInt := value.(int64)
			ok = isInt && (n != 0 || key != "generation")
		case "creationTimestamp", "deletionTimestamp":
			ok = isTimestamp(value)
		case "labels", "annotations":
			ok = isMapOfStrings(value)
		case "finalizers":
			ok = isListOf(value, func(v any) bool { _, ok := v.(string); return ok })
		case "ownerReferences":
			ok = isListOf(value, isOwnerReference)
		case "managedFields":
			ok = isListOf(value, isManagedFields)
		}
		if !ok {
			return false
		}
	}
	return true
}

func isText(v any) bool { s, ok := v.(string); return ok && s != "" }

// isTimestamp accepts times as the server writes them, in UTC and without fractions of a second.
func isTimestamp(v any) bool {
	const layout = "2006-01-02T15:04:05Z"
	s, ok := v.(string)
	if !ok || len(s) != len(layout) || s[len(s)-1] != 'Z' {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero()
}

func isMapOfStrings(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return false
	}
	for _, value := range m {
		if _, ok := value.(string); !ok {
			return false
		}
	}
	return true
}

func isListOf(v any, is func(any) bool) bool {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, item := range list {
		if !is(item) {
			return false
		}
	}
	return true
}

func isOwnerReference(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	required := 0
	for key, value := range m {
		switch key {
		case "apiVersion", "kind", "name", "uid":
			_, ok = value.(string)
			required++
		case "controller", "blockOwnerDeletion":
			_, ok = value.(bool)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return required == 4
}

func isManagedFields(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range m {
		switch key {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = isText(value)
		case "time":
			ok = isTimestamp(value)
		case "fieldsV1":
			_, ok = value.(map[string]any)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}
