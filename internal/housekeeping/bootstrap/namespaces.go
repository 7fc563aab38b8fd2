package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// systemNamespaces exist on every server.
var systemNamespaces = [...]string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease",
}

// EnsureNamespaces creates the system namespaces that do not exist.
func EnsureNamespaces(ctx context.Context, store *resource.Store) error {
	d := store.Registry().Load().Resource(schema.GroupResource{Resource: "namespaces"})
	if d == nil {
		return errors.New("namespaces are not served")
	}
	for _, name := range systemNamespaces {
		if o, _ := store.State().Get(d.Key("", name)); o != nil {
			continue
		}
		r := &resource.Request{
			Definition: d, Version: d.Storage,
			Manager:         "kapok",
			FieldValidation: metav1.FieldValidationStrict,
			Warn:            func(string) {},
		}
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
		if _, err := store.Create(ctx, r, resource.Body{Data: body}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}
