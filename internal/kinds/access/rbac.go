package access

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
)

// RBAC returns the kinds of group rbac.authorization.k8s.io.
func RBAC() []kind.Row {
	v1 := rbacv1.SchemeGroupVersion
	// Names such as system:node are valid, so any path segment is.
	strategy := resource.Strategy{ValidateName: path.ValidatePathSegmentName, CreateOnUpdate: true}
	roles, bindings := strategy, strategy
	roles.Permit, bindings.Permit = permitRole, permitBinding
	return []kind.Row{
		kind.Kind[*rbacv1.Role]{
			Version:  v1,
			Plural:   "roles",
			Validate: validateRole,
			Table:    rolesTable(),
			Strategy: roles,
		}.Row(),
		kind.Kind[*rbacv1.ClusterRole]{
			Version:       v1,
			Plural:        "clusterroles",
			ClusterScoped: true,
			Validate:      validateClusterRole,
			Table:         clusterRolesTable(),
			Strategy:      roles,
		}.Row(),
		kind.Kind[*rbacv1.RoleBinding]{
			Version:  v1,
			Plural:   "rolebindings",
			Filled:   true,
			Validate: validateRoleBinding,
			Table:    roleBindingsTable(),
			Strategy: bindings,
		}.Row(),
		kind.Kind[*rbacv1.ClusterRoleBinding]{
			Version:       v1,
			Plural:        "clusterrolebindings",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateClusterRoleBinding,
			Table:         clusterRoleBindingsTable(),
			Strategy:      bindings,
		}.Row(),
	}
}
