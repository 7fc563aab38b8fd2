package cluster

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
)

// StorageMigration returns the kinds of group storagemigration.k8s.io.
func StorageMigration() []kind.Row {
	return []kind.Row{
		kind.Kind[*storagemigrationv1.StorageVersionMigration]{
			Version:       storagemigrationv1.SchemeGroupVersion,
			Plural:        "storageversionmigrations",
			ClusterScoped: true,
			Validate:      validateStorageVersionMigration,
			Status: &kind.Status[*storagemigrationv1.StorageVersionMigration]{
				Validate: validateStorageVersionMigrationStatus,
				Keeps:    kind.MetadataOfStatus,
			},
			Table:     storageVersionMigrationsTable(),
			Versioned: true,
		}.Row(),
	}
}
