package access

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
)

func rbacTypes(f *defaults.Functions) {
	defaults.On(f, func(r *rbacv1.RoleRef) { defaults.Value(&r.APIGroup, rbacv1.GroupName) })
	defaults.On(f, func(r *rbacv1beta1.RoleRef) { defaults.Value(&r.APIGroup, rbacv1.GroupName) })
	defaults.On(f, func(r *rbacv1alpha1.RoleRef) { defaults.Value(&r.APIGroup, rbacv1.GroupName) })
	defaults.On(f, func(s *rbacv1.Subject) { defaults.Value(&s.APIGroup, groupOf(s.Kind)) })
	defaults.On(f, func(s *rbacv1beta1.Subject) { defaults.Value(&s.APIGroup, groupOf(s.Kind)) })
	defaults.On(f, func(s *rbacv1alpha1.Subject) {
		switch {
		case s.Kind == rbacv1.ServiceAccountKind:
			defaults.Value(&s.APIVersion, "v1")
		case groupOf(s.Kind) != "":
			defaults.Value(&s.APIVersion, rbacv1alpha1.SchemeGroupVersion.String())
		}
	})
}

// groupOf returns the default API group of a kind of subjects; service accounts are in the core
// group.
func groupOf(kind string) string {
	if kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
		return rbacv1.GroupName
	}
	return ""
}
