package access

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Conversions are the conversions of roles and bindings.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[rbacv1.Role, rbacv1.Role](),
		kind.Same[rbacv1.Role, rbacv1beta1.Role](),
		kind.Same[rbacv1.Role, rbacv1alpha1.Role](),
		kind.Same[rbacv1.ClusterRole, rbacv1.ClusterRole](),
		kind.Same[rbacv1.ClusterRole, rbacv1beta1.ClusterRole](),
		kind.Same[rbacv1.ClusterRole, rbacv1alpha1.ClusterRole](),
		kind.Same[rbacv1.RoleBinding, rbacv1.RoleBinding](),
		kind.Same[rbacv1.RoleBinding, rbacv1beta1.RoleBinding](),
		kind.Same[rbacv1.RoleBinding, rbacv1alpha1.RoleBinding](),
		kind.Same[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBinding](),
		kind.Same[rbacv1.ClusterRoleBinding, rbacv1beta1.ClusterRoleBinding](),
		kind.Same[rbacv1.ClusterRoleBinding, rbacv1alpha1.ClusterRoleBinding](),
		kind.Both(subjectIn, subjectOut),
	}
}

// subjectIn sets the API group of a subject with an apiVersion. In v1alpha1, the user * stands for
// all authenticated users.
func subjectIn(in *rbacv1alpha1.Subject, hub *rbacv1.Subject) error {
	switch in.Kind {
	case rbacv1.ServiceAccountKind:
		hub.APIGroup = ""
	case rbacv1.UserKind, rbacv1.GroupKind:
		hub.APIGroup = rbacv1.GroupName
	default:
		if gv, err := schema.ParseGroupVersion(in.APIVersion); err == nil {
			hub.APIGroup = gv.Group
		}
	}
	if in.Kind == rbacv1.UserKind && in.Name == "*" {
		hub.Kind, hub.Name = rbacv1.GroupKind, "system:authenticated"
	}
	return nil
}

func subjectOut(hub *rbacv1.Subject, out *rbacv1alpha1.Subject) error {
	switch {
	case hub.Kind == rbacv1.ServiceAccountKind && hub.APIGroup == "":
		out.APIVersion = "v1"
	case (hub.Kind == rbacv1.UserKind || hub.Kind == rbacv1.GroupKind) && hub.APIGroup == rbacv1.GroupName:
		out.APIVersion = rbacv1alpha1.SchemeGroupVersion.String()
	default:
		out.APIVersion = schema.GroupVersion{Group: hub.APIGroup}.String()
	}
	return nil
}
