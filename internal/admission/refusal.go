package admission

import (
	"fmt"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Forbidden returns the error of a plugin that rejects a request: 403, about the object of the
// request. It returns an API error unchanged.
func Forbidden(a *resource.Admitted, err error) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	return apierrors.NewForbidden(a.Request.GroupResource(), nameFor(a), err)
}

// nameFor returns the object's name in errors, as it may have none yet.
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

// Decode decodes an object into its Go type, or into a type with some of its fields.
func Decode[T any](obj resource.Tree) (*T, error) {
	into := new(T)
	if err := typed.FromTree(obj, into); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	return into, nil
}
