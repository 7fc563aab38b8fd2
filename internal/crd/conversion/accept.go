package conversion

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/object"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// accept checks one object of a response against the original, and restores the metadata that a
// webhook must not change. The original must not be used afterwards. Its errors complete the
// sentence of a caller; many selects the words for an object of a list, at the given index.
func accept(original, obj Tree, to string, index int, many bool) error {
	invalid, metadata := "invalid object", "invalid metadata"
	at := fmt.Sprintf("invalid object at index %d", index)
	if many {
		at = fmt.Sprintf("invalid converted object at index %d", index)
		invalid, metadata = at, fmt.Sprintf("invalid metadata in object at index %d", index)
	}
	was, is := kindOf(original), kindOf(obj)
	if want, err := schema.ParseGroupVersion(to); err == nil && is.GroupVersion() != want {
		return fmt.Errorf("%s: invalid groupVersion (expected %v, received %v)", at, want, is.GroupVersion())
	}
	if was.Kind != is.Kind {
		return fmt.Errorf("%s: invalid kind (expected %v, received %v)", at, was.Kind, is.Kind)
	}
	if err := sameObject(original, obj); err != nil {
		return fmt.Errorf("%s: %w", invalid, err)
	}
	if err := restoreMetadata(original, obj); err != nil {
		return fmt.Errorf("%s: %w", metadata, err)
	}
	return nil
}

func decode(raw []byte) (Tree, error) {
	obj, err := object.DecodeTree(raw)
	if err == nil && kindOf(obj).Kind != "" && obj["items"] == nil {
		return obj, nil
	}
	// The fast checks failed: the library finds the error, and its words.
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return u.Object, nil
}

// sameObject returns an error if the metadata of two objects differs in a field that must not
// change.
func sameObject(original, obj Tree) error {
	for _, f := range []struct{ key, name string }{{"name", "name"}, {"namespace", "namespace"}, {"uid", "UID"}} {
		if was, is := metaString(original, f.key), metaString(obj, f.key); was != is {
			return fmt.Errorf("must have the same %s: %v != %v", f.name, was, is)
		}
	}
	return nil
}

// restoreMetadata replaces the metadata of obj by the original's, except for labels and
// annotations.
func restoreMetadata(original, obj Tree) error {
	value, found := obj["metadata"]
	if !found {
		return errors.New("missing metadata in converted object")
	}
	answered, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", value)
	}
	restored := Tree{} // the original always has metadata; do not rely on it
	if value, ok := original["metadata"]; ok {
		if restored, ok = value.(map[string]any); !ok {
			return fmt.Errorf("invalid metadata of type %T in input object", value)
		}
	}
	obj["metadata"] = restored
	for _, key := range []string{"labels", "annotations"} {
		value := answered[key]
		if value == nil {
			delete(restored, key)
			continue
		}
		now, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("invalid metadata.%s of type %T in converted object", key, value)
		}
		before, ok := restored[key].(map[string]any)
		if !ok && restored[key] != nil {
			return fmt.Errorf("invalid metadata.%s of type %T in original object", key, restored[key])
		}
		if err := checkStrings(key, before, now); err != nil {
			return err
		}
		restored[key] = now
	}
	return nil
}

// checkStrings validates labels or annotations, unless they are unchanged.
func checkStrings(key string, before, now map[string]any) error {
	texts := make(map[string]string, len(now))
	for k, v := range now {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", key, k, v)
		}
		texts[k] = text
	}
	if maps.EqualFunc(before, now, func(a, b any) bool { s, ok := a.(string); return ok && s == b }) {
		return nil
	}
	path := field.NewPath("metadata")
	if key == "labels" {
		return toError(metav1validation.ValidateLabels(texts, path.Child("labels")))
	}
	return toError(apivalidation.ValidateAnnotations(texts, path.Child("annotation"))) // in the singular, as in Kubernetes
}

func toError(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return errs.ToAggregate()
}

func kindOf(obj Tree) schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: obj}).GroupVersionKind()
}

func metaString(obj Tree, key string) string {
	s, _, _ := unstructured.NestedString(obj, "metadata", key)
	return s
}
