package history

import (
	"context"
	"encoding/json"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// roleName is the name of the cluster role by which users may read revisions of the objects that
// they may get.
const roleName = "system:aggregated-history-reader"

// EnsureRole creates a cluster role, unless it exists, that lets the users of the roles view, edit
// and admin read the revisions of objects in namespaces.
func EnsureRole(ctx context.Context, store *resource.Store) error {
	d := store.Registry().Load().Resource(schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"})
	r := &resource.Request{Definition: d, Version: d.Storage, Name: roleName, Manager: "kapok", Warn: func(string) {}}
	if o, _ := store.State().Get(r.Key()); o != nil {
		return nil
	}
	const aggregate = "rbac.authorization.k8s.io/aggregate-to-"
	body, err := json.Marshal(map[string]any{
		"apiVersion": d.APIVersion(d.Storage), "kind": d.Kind,
		"metadata": map[string]any{"name": roleName, "labels": map[string]any{aggregate + "admin": "true", aggregate + "edit": "true", aggregate + "view": "true"}},
		"rules":    []any{map[string]any{"apiGroups": []any{GroupVersion.Group}, "resources": []any{Revisions}, "verbs": []any{"get", "list"}}},
	})
	if err != nil {
		return err
	}
	r.Name = ""
	if _, err := store.Create(ctx, r, resource.Body{Data: body}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
