package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
)

// rbac is the group of who may do what.
func rbac() []row {
	v1 := rbacv1.SchemeGroupVersion
	// Names tell what a role is for, as in system:node, and so may be nearly anything.
	hooks := resource.Hooks{ValidateName: path.ValidatePathSegmentName, CreateOnUpdate: true}
	roles, bindings := hooks, hooks
	roles.Permit, bindings.Permit = permitRole, permitBinding
	return []row{
		kind[rbacv1.Role]{
			version:  v1,
			plural:   "roles",
			validate: validation.Role,
			table:    tables.Roles(),
			hooks:    roles,
		}.row(),
		kind[rbacv1.ClusterRole]{
			version:       v1,
			plural:        "clusterroles",
			clusterScoped: true,
			validate:      validation.ClusterRole,
			table:         tables.ClusterRoles(),
			hooks:         roles,
		}.row(),
		kind[rbacv1.RoleBinding]{
			version:  v1,
			plural:   "rolebindings",
			defaults: fill[rbacv1.RoleBinding],
			validate: validation.RoleBinding,
			table:    tables.RoleBindings(),
			hooks:    bindings,
		}.row(),
		kind[rbacv1.ClusterRoleBinding]{
			version:       v1,
			plural:        "clusterrolebindings",
			clusterScoped: true,
			defaults:      fill[rbacv1.ClusterRoleBinding],
			validate:      validation.ClusterRoleBinding,
			table:         tables.ClusterRoleBindings(),
			hooks:         bindings,
		}.row(),
	}
}
