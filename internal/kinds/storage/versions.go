package storage

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
)

// Conversions are the conversions of this group's types.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[storagev1.StorageClass, storagev1.StorageClass](),
		kind.Same[storagev1.StorageClass, storagev1beta1.StorageClass](),
		kind.Same[storagev1.VolumeAttachment, storagev1.VolumeAttachment](),
		kind.Same[storagev1.VolumeAttachment, storagev1beta1.VolumeAttachment](),
		kind.Same[storagev1.VolumeAttachment, storagev1alpha1.VolumeAttachment](),
		kind.Same[storagev1.CSIDriver, storagev1.CSIDriver](),
		kind.Same[storagev1.CSIDriver, storagev1beta1.CSIDriver](),
		kind.Same[storagev1.CSINode, storagev1.CSINode](),
		kind.Same[storagev1.CSINode, storagev1beta1.CSINode](),
		kind.Lossy[storagev1.CSINode, storagev1beta1.CSINode](), // only v1 has a status
		kind.Same[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacity](),
		kind.Same[storagev1.CSIStorageCapacity, storagev1beta1.CSIStorageCapacity](),
		kind.Same[storagev1.CSIStorageCapacity, storagev1alpha1.CSIStorageCapacity](),
		kind.Same[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClass](),
		kind.Same[storagev1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClass](),
		kind.Same[storagev1.VolumeAttributesClass, storagev1alpha1.VolumeAttributesClass](),
	}
}
