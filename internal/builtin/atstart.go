package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EnsureDefaults creates the objects that every server of Kubernetes has, as far as
// they are not there: the classes of pods that the system itself needs.
func EnsureDefaults(ctx context.Context, store *resource.Store) error {
	set := store.Registry().Load()
	for _, obj := range priorityClassesAtStart() {
		gvk := schema.FromAPIVersionAndKind(text(obj, "apiVersion"), text(obj, "kind"))
		d, name := set.Kind(gvk.GroupKind()), text(obj, "metadata", "name")
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
			Definition: d, Version: d.Version(gvk.GroupVersion()), Manager: "kapok",
			FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
		}
		if _, err := store.Create(ctx, r, resource.Body{Data: body}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", gvk.Kind, name, err)
		}
	}
	return nil
}
