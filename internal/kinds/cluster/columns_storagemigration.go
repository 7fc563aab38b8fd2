package cluster

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storageVersionMigrationsTable is the table of storage version migrations.
func storageVersionMigrationsTable() kind.Table[*storagemigrationv1.StorageVersionMigration] {
	name := kind.NameColumn()
	name.Format = "" // as it is in Kubernetes
	return kind.Table[*storagemigrationv1.StorageVersionMigration]{Columns: []metav1.TableColumnDefinition{
		name, kind.Column("Resource", "GroupResource to migrate"), kind.Column("Status", "Status of the migration"),
	}, Cells: storageVersionMigrationCells}
}

func storageVersionMigrationCells(m *storagemigrationv1.StorageVersionMigration, _ time.Time) []any {
	status := "Unknown"
	for _, c := range m.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch kind := storagemigrationv1.MigrationConditionType(c.Type); kind {
		case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationFailed, storagemigrationv1.MigrationSucceeded:
			status = c.Type
		}
	}
	return []any{m.Name, m.Spec.Resource.String(), status}
}
