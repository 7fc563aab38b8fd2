package access

import (
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rolesTable is the table of roles.
func rolesTable() kind.Table[*rbacv1.Role] { return byCreation[*rbacv1.Role]() }

// clusterRolesTable is the table of cluster roles.
func clusterRolesTable() kind.Table[*rbacv1.ClusterRole] { return byCreation[*rbacv1.ClusterRole]() }

// byCreation is a table of names and creation times, which Kubernetes uses for kinds without
// columns of their own.
func byCreation[P interface {
	runtime.Object
	metav1.Object
}]() kind.Table[P] {
	created := kind.FieldColumn("Created At", metav1.ObjectMeta{}, "creationTimestamp")
	created.Type = "date"
	return kind.Table[P]{
		Columns: []metav1.TableColumnDefinition{kind.NameColumn(), created},
		Cells: func(obj P, _ time.Time) []any {
			return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},
	}
}

// roleBindingsTable is the table of role bindings.
func roleBindingsTable() kind.Table[*rbacv1.RoleBinding] {
	return kind.Table[*rbacv1.RoleBinding]{
		Columns: bindingColumns(rbacv1beta1.RoleBinding{}, "roleBinding"),
		Cells: func(b *rbacv1.RoleBinding, now time.Time) []any {
			return bindingCells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

// clusterRoleBindingsTable is the table of cluster role bindings.
func clusterRoleBindingsTable() kind.Table[*rbacv1.ClusterRoleBinding] {
	return kind.Table[*rbacv1.ClusterRoleBinding]{
		Columns: bindingColumns(rbacv1beta1.ClusterRoleBinding{}, "clusterRoleBinding"),
		Cells: func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return bindingCells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

func bindingColumns(of kind.Documented, called string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("Role", of, "roleRef"), kind.AgeColumn(),
		kind.Wide(kind.Column("Users", "Users in the "+called)),
		kind.Wide(kind.Column("Groups", "Groups in the "+called)),
		kind.Wide(kind.Column("ServiceAccounts", "ServiceAccounts in the "+called)),
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
		meta.Name, role.Kind + "/" + role.Name, kind.Age(meta, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
