package defaults

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
)

func rbacTypes(f *functions) {
	on(f, func(r *rbacv1.RoleRef) { fill(&r.APIGroup, rbacv1.GroupName) })
	on(f, func(r *rbacv1beta1.RoleRef) { fill(&r.APIGroup, rbacv1.GroupName) })
	on(f, func(r *rbacv1alpha1.RoleRef) { fill(&r.APIGroup, rbacv1.GroupName) })
	on(f, func(s *rbacv1.Subject) { fill(&s.APIGroup, groupOf(s.Kind)) })
	on(f, func(s *rbacv1beta1.Subject) { fill(&s.APIGroup, groupOf(s.Kind)) })
	on(f, func(s *rbacv1alpha1.Subject) {
		switch {
		case s.Kind == rbacv1.ServiceAccountKind:
			fill(&s.APIVersion, "v1")
		case groupOf(s.Kind) != "":
			fill(&s.APIVersion, rbacv1alpha1.SchemeGroupVersion.String())
		}
	})
}

// groupOf is the group of a kind of subjects; service accounts are in the core group.
func groupOf(kind string) string {
	if kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
		return rbacv1.GroupName
	}
	return ""
}
