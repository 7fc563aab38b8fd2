package tables

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Roles is the table of roles. Kubernetes has no columns of its own for them.
func Roles() Table[rbacv1.Role] { return byCreation[rbacv1.Role]() }

// ClusterRoles is the table of cluster roles.
func ClusterRoles() Table[rbacv1.ClusterRole] { return byCreation[rbacv1.ClusterRole]() }

// byCreation is the table of kinds of which nothing is shown but when they were made.
func byCreation[T any, P interface {
	*T
	metav1.Object
}]() Table[T] {
	created := fieldColumn("Created At", metav1.ObjectMeta{}, "creationTimestamp")
	created.Type = "date"
	return Table[T]{
		Columns: []metav1.TableColumnDefinition{nameColumn(), created},
		Cells: func(obj *T, _ time.Time) []any {
			meta := P(obj)
			return []any{meta.GetName(), meta.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},
	}
}

// RoleBindings is the table of role bindings.
func RoleBindings() Table[rbacv1.RoleBinding] {
	return Table[rbacv1.RoleBinding]{
		Columns: bindingColumns(rbacv1beta1.RoleBinding{}, "roleBinding"),
		Cells: func(b *rbacv1.RoleBinding, now time.Time) []any {
			return bindingCells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

// ClusterRoleBindings is the table of cluster role bindings.
func ClusterRoleBindings() Table[rbacv1.ClusterRoleBinding] {
	return Table[rbacv1.ClusterRoleBinding]{
		Columns: bindingColumns(rbacv1beta1.ClusterRoleBinding{}, "clusterRoleBinding"),
		Cells: func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return bindingCells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

func bindingColumns(of documented, called string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("Role", of, "roleRef"), ageColumn(),
		wide(column("Users", "Users in the "+called)),
		wide(column("Groups", "Groups in the "+called)),
		wide(column("ServiceAccounts", "ServiceAccounts in the "+called)),
	}
}

func bindingCells(meta metav1.ObjectMeta, role rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		meta.Name, role.Kind + "/" + role.Name, age(meta, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
