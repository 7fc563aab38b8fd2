package tables

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespaces is the table of namespaces.
func Namespaces() Table[corev1.Namespace] {
	return Table[corev1.Namespace]{Columns: []metav1.TableColumnDefinition{nameColumn(), column("Status", "The status of the namespace"), ageColumn()}, Cells: namespaceCells}
}

func namespaceCells(ns *corev1.Namespace, now time.Time) []any {
	return []any{ns.Name, string(ns.Status.Phase), age(ns.ObjectMeta, now)}
}

// ConfigMaps is the table of config maps.
func ConfigMaps() Table[corev1.ConfigMap] {
	return Table[corev1.ConfigMap]{Columns: []metav1.TableColumnDefinition{nameColumn(), fieldColumn("Data", corev1.ConfigMap{}, "data"), ageColumn()}, Cells: configMapCells}
}

func configMapCells(cm *corev1.ConfigMap, now time.Time) []any {
	return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), age(cm.ObjectMeta, now)}
}

// Secrets is the table of secrets.
func Secrets() Table[corev1.Secret] {
	return Table[corev1.Secret]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("Type", corev1.Secret{}, "type"), fieldColumn("Data", corev1.Secret{}, "data"), ageColumn(),
	}, Cells: secretCells}
}

func secretCells(s *corev1.Secret, now time.Time) []any {
	return []any{s.Name, string(s.Type), int64(len(s.Data)), age(s.ObjectMeta, now)}
}

// ServiceAccounts is the table of service accounts.
func ServiceAccounts() Table[corev1.ServiceAccount] {
	return Table[corev1.ServiceAccount]{Columns: []metav1.TableColumnDefinition{nameColumn(), ageColumn()}, Cells: serviceAccountCells}
}

func serviceAccountCells(sa *corev1.ServiceAccount, now time.Time) []any {
	return []any{sa.Name, age(sa.ObjectMeta, now)}
}
