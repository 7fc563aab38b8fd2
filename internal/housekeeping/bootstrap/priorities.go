package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EnsurePriorityClasses creates the system's priority classes that do not exist.
func EnsurePriorityClasses(ctx context.Context, store *resource.Store) error {
	set := store.Registry().Load()
	for _, obj := range pods.PriorityClassesAtStart() {
		gvk := schema.FromAPIVersionAndKind(kind.Text(obj, "apiVersion"), kind.Text(obj, "kind"))
		d, name := set.Kind(gvk.GroupKind()), kind.Text(obj, "metadata", "name")
		if d == nil {
			return fmt.Errorf("%s is not served", gvk)
		}
		if o, _ := store.State().Get(d.Key("", name)); o != nil {
			continue
		}
		body, err := json.Marshal(obj)
		if err != nil {
			return fmt.Errorf("create %s %s: %w", gvk.Kind, name, err)
		}
		r := &resource.Request{
			Definition: d, Version: d.AnyVersion(gvk.GroupVersion()), Manager: "kapok",
			FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
		}
		if _, err := store.Create(ctx, r, resource.Body{Data: body}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", gvk.Kind, name, err)
		}
	}
	return nil
}
