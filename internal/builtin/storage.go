package builtin

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
)

// metadataOfStatus is what a status subresource does not write of an object's metadata, where it writes none.
var metadataOfStatus = []string{
	"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "metadata.deletionTimestamp",
}

// storage has group storage.k8s.io.
func storage() []row {
	v1, v1beta1 := storagev1.SchemeGroupVersion, storagev1beta1.SchemeGroupVersion
	return []row{
		kind[storagev1.StorageClass]{
			version:       v1,
			plural:        "storageclasses",
			shortNames:    []string{"sc"},
			clusterScoped: true,
			defaults:      fill[storagev1.StorageClass],
			validate:      validation.StorageClass,
			table:         tables.StorageClasses(),
			retired:       []another[storagev1.StorageClass]{in[storagev1.StorageClass, storagev1beta1.StorageClass](v1beta1)},
			hooks:         resource.Hooks{Warnings: warnOfStorageClass, DeleteReturnsObject: true},
		}.row(),
		kind[storagev1.VolumeAttachment]{
			version:       v1,
			plural:        "volumeattachments",
			clusterScoped: true,
			defaults:      fill[storagev1.VolumeAttachment],
			validate:      validation.VolumeAttachment,
			status:        &status[storagev1.VolumeAttachment]{keeps: metadataOfStatus},
			prepareCreate: func(obj resource.Tree) { put(obj, false, "status", "attached") },
			table:         tables.VolumeAttachments(),
			retired:       []another[storagev1.VolumeAttachment]{in[storagev1.VolumeAttachment, storagev1beta1.VolumeAttachment](v1beta1)},
			versioned:     true,
			hooks:         resource.Hooks{DeleteReturnsObject: true},
		}.row(),
		kind[storagev1.VolumeAttributesClass]{
			version:       v1,
			plural:        "volumeattributesclasses",
			shortNames:    []string{"vac"},
			clusterScoped: true,
			validate:      validation.VolumeAttributesClass,
			table:         tables.VolumeAttributesClasses(),
			retired:       []another[storagev1.VolumeAttributesClass]{in[storagev1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClass](v1beta1)},
			hooks:         resource.Hooks{DeleteReturnsObject: true},
		}.row(),
		kind[storagev1.CSINode]{
			version:       v1,
			plural:        "csinodes",
			clusterScoped: true,
			defaults:      defaultCSINode,
			validate:      validation.CSINode,
			status: &status[storagev1.CSINode]{
				validate: validation.CSINodeStatus,
				keeps:    metadataOfStatus,
				// CSIVolumeHealth is off unless asked for.
				prepare: func(obj, old resource.Tree) { dropUnlessSet(obj, old, "status", "storageHealth") },
			},
			table:     tables.CSINodes(),
			retired:   []another[storagev1.CSINode]{in[storagev1.CSINode, storagev1beta1.CSINode](v1beta1)},
			versioned: true,
			hooks:     resource.Hooks{DeleteReturnsObject: true},
		}.row(),
		kind[storagev1.CSIDriver]{
			version:       v1,
			plural:        "csidrivers",
			clusterScoped: true,
			defaults:      fill[storagev1.CSIDriver],
			validate:      validation.CSIDriver,
			prepareUpdate: countCSIDriver,
			table:         tables.CSIDrivers(),
			retired:       []another[storagev1.CSIDriver]{in[storagev1.CSIDriver, storagev1beta1.CSIDriver](v1beta1)},
			versioned:     true,
			hooks:         resource.Hooks{Warnings: warnOfCSIDriver, DeleteReturnsObject: true},
		}.row(),
		kind[storagev1.CSIStorageCapacity]{
			version:   v1,
			plural:    "csistoragecapacities",
			validate:  validation.CSIStorageCapacity,
			retired:   []another[storagev1.CSIStorageCapacity]{in[storagev1.CSIStorageCapacity, storagev1beta1.CSIStorageCapacity](v1beta1)},
			versioned: true,
			hooks:     resource.Hooks{Warnings: warnOfCapacity},
		}.row(),
	}
}

// defaultCSINode shows empty lists as none, as they come out of Kubernetes' store.
func defaultCSINode(node *storagev1.CSINode) {
	if len(node.Spec.Drivers) == 0 {
		node.Spec.Drivers = nil
	}
	for i := range node.Spec.Drivers {
		if driver := &node.Spec.Drivers[i]; len(driver.TopologyKeys) == 0 {
			driver.TopologyKeys = nil
		}
	}
}

// countCSIDriver counts the changes of a driver; there is no generation before the first.
func countCSIDriver(obj, old resource.Tree) {
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		generation, _ := get(old, "metadata", "generation").(int64)
		put(obj, generation+1, "metadata", "generation")
	}
}

// warnOfCSIDriver warns when tokens are asked for that may end in logs.
func warnOfCSIDriver(obj, old resource.Tree) []string {
	requests, _ := get(obj, "spec", "tokenRequests").([]any)
	if len(requests) == 0 || get(obj, "spec", "serviceAccountTokenInSecrets") != nil {
		return nil
	}
	if old != nil && reflect.DeepEqual(get(old, "spec", "tokenRequests"), any(requests)) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}
