package cluster

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespacesTable is the table of namespaces.
func namespacesTable() kind.Table[*corev1.Namespace] {
	return kind.Table[*corev1.Namespace]{Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.Column("Status", "The status of the namespace"), kind.AgeColumn()}, Cells: namespaceCells}
}

func namespaceCells(ns *corev1.Namespace, now time.Time) []any {
	return []any{ns.Name, string(ns.Status.Phase), kind.Age(ns.ObjectMeta, now)}
}

// configMapsTable is the table of config maps.
func configMapsTable() kind.Table[*corev1.ConfigMap] {
	return kind.Table[*corev1.ConfigMap]{Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.FieldColumn("Data", corev1.ConfigMap{}, "data"), kind.AgeColumn()}, Cells: configMapCells}
}

func configMapCells(cm *corev1.ConfigMap, now time.Time) []any {
	return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), kind.Age(cm.ObjectMeta, now)}
}

// secretsTable is the table of secrets.
func secretsTable() kind.Table[*corev1.Secret] {
	return kind.Table[*corev1.Secret]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("Type", corev1.Secret{}, "type"), kind.FieldColumn("Data", corev1.Secret{}, "data"), kind.AgeColumn(),
	}, Cells: secretCells}
}

func secretCells(s *corev1.Secret, now time.Time) []any {
	return []any{s.Name, string(s.Type), int64(len(s.Data)), kind.Age(s.ObjectMeta, now)}
}

// serviceAccountsTable is the table of service accounts.
func serviceAccountsTable() kind.Table[*corev1.ServiceAccount] {
	return kind.Table[*corev1.ServiceAccount]{Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.AgeColumn()}, Cells: serviceAccountCells}
}

func serviceAccountCells(sa *corev1.ServiceAccount, now time.Time) []any {
	return []any{sa.Name, kind.Age(sa.ObjectMeta, now)}
}
