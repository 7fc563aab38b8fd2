package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
)

// storagemigration has the group storagemigration.k8s.io.
func storagemigration() []row {
	return []row{
		kind[storagemigrationv1.StorageVersionMigration]{
			version:       storagemigrationv1.SchemeGroupVersion,
			plural:        "storageversionmigrations",
			clusterScoped: true,
			validate:      validation.StorageVersionMigration,
			status: &status[storagemigrationv1.StorageVersionMigration]{
				validate: validation.StorageVersionMigrationStatus,
				keeps:    metadataOfStatus,
			},
			table:     tables.StorageVersionMigrations(),
			inert:     "the migration is kept, but nothing is migrated by it",
			versioned: true,
		}.row(),
	}
}
