package admission

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Forbidden is the refusal of a plugin: 403, about the object of the request. What is a refusal already stays as it is.
func Forbidden(a *resource.Admitted, err error) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	return apierrors.NewForbidden(a.Request.GroupResource(), nameFor(a), err)
}

// nameFor is the name by which a refusal calls an object, which may have none yet.
func nameFor(a *resource.Admitted) string {
	if a.Name != "" {
		return a.Name
	}
	metadata, _ := a.Object["metadata"].(map[string]any)
	for _, key := range []string{"name", "generateName"} {
		if name, _ := metadata[key].(string); name != "" {
			return name
		}
	}
	return "Unknown"
}

// Decode decodes an object into its Go type, or one that has some of its fields.
func Decode[T any](obj resource.Tree) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, into); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	return into, nil
}
