package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EnsureKubeletAdmins lets the group of this server's certificate for kubelets use the API of
// kubelets, which ask this server whether it may. It creates the binding if it does not exist.
func EnsureKubeletAdmins(ctx context.Context, store *resource.Store) error {
	d := store.Registry().Load().Resource(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"})
	if d == nil {
		return errors.New("cluster role bindings are not served")
	}
	binding := rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: authn.KubeletAdmins},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: authn.KubeletAdmins}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
	}
	if o, _ := store.State().Get(d.Key("", binding.Name)); o != nil {
		return nil
	}
	body, err := json.Marshal(&binding)
	if err != nil {
		return err
	}
	r := &resource.Request{
		Definition: d, Version: d.AnyVersion(rbacv1.SchemeGroupVersion), Manager: "kapok",
		FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}
	if _, err := store.Create(ctx, r, resource.Body{Data: body}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the cluster role binding %s: %w", binding.Name, err)
	}
	return nil
}
