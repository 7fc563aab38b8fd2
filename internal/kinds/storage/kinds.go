package storage

import (
	"reflect"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
)

// Kinds returns the kinds of group storage.k8s.io.
func Kinds() []kind.Row {
	v1, v1beta1 := storagev1.SchemeGroupVersion, storagev1beta1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*storagev1.StorageClass]{
			Version:       v1,
			Plural:        "storageclasses",
			ShortNames:    []string{"sc"},
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateStorageClass,
			Table:         storageClassesTable(),
			Retired:       []kind.Another[*storagev1.StorageClass]{kind.In[*storagev1.StorageClass, *storagev1beta1.StorageClass](v1beta1)},
			Strategy:      resource.Strategy{Warnings: warnOfStorageClass},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*storagev1.VolumeAttachment]{
			Version:       v1,
			Plural:        "volumeattachments",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateVolumeAttachment,
			Status:        &kind.Status[*storagev1.VolumeAttachment]{Keeps: kind.MetadataOfStatus},
			PrepareCreate: func(obj resource.Tree) { kind.Put(obj, false, "status", "attached") },
			Table:         volumeAttachmentsTable(),
			Retired:       []kind.Another[*storagev1.VolumeAttachment]{kind.In[*storagev1.VolumeAttachment, *storagev1beta1.VolumeAttachment](v1beta1)},
			Versioned:     true,
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*storagev1.VolumeAttributesClass]{
			Version:       v1,
			Plural:        "volumeattributesclasses",
			ShortNames:    []string{"vac"},
			ClusterScoped: true,
			Validate:      validateVolumeAttributesClass,
			Table:         volumeAttributesClassesTable(),
			Retired:       []kind.Another[*storagev1.VolumeAttributesClass]{kind.In[*storagev1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClass](v1beta1)},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*storagev1.CSINode]{
			Version:       v1,
			Plural:        "csinodes",
			ClusterScoped: true,
			Defaults:      defaultCSINode,
			Validate:      validateCSINode,
			Status: &kind.Status[*storagev1.CSINode]{
				Validate: validateCSINodeStatus,
				Keeps:    kind.MetadataOfStatus,
				// CSIVolumeHealth is off by default.
				Prepare: func(obj, old resource.Tree) { kind.DropUnlessSet(obj, old, "status", "storageHealth") },
			},
			Table:     csiNodesTable(),
			Retired:   []kind.Another[*storagev1.CSINode]{kind.In[*storagev1.CSINode, *storagev1beta1.CSINode](v1beta1)},
			Versioned: true,
			Deletion:  resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*storagev1.CSIDriver]{
			Version:       v1,
			Plural:        "csidrivers",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateCSIDriver,
			PrepareUpdate: countCSIDriver,
			Table:         csiDriversTable(),
			Retired:       []kind.Another[*storagev1.CSIDriver]{kind.In[*storagev1.CSIDriver, *storagev1beta1.CSIDriver](v1beta1)},
			Versioned:     true,
			Strategy:      resource.Strategy{Warnings: warnOfCSIDriver},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*storagev1.CSIStorageCapacity]{
			Version:   v1,
			Plural:    "csistoragecapacities",
			Validate:  validateCSIStorageCapacity,
			Retired:   []kind.Another[*storagev1.CSIStorageCapacity]{kind.In[*storagev1.CSIStorageCapacity, *storagev1beta1.CSIStorageCapacity](v1beta1)},
			Versioned: true,
			Strategy:  resource.Strategy{Warnings: warnOfCapacity},
		}.Row(),
	}
}

// defaultCSINode turns empty lists into missing ones, as kube-apiserver's storage does.
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

// countCSIDriver increments the generation when the spec changes. Drivers from before that have no
// generation.
func countCSIDriver(obj, old resource.Tree) {
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		generation, _ := kind.Get(old, "metadata", "generation").(int64)
		kind.Put(obj, generation+1, "metadata", "generation")
	}
}

// warnOfCSIDriver warns of tokens in a place where the driver may log them.
func warnOfCSIDriver(obj, old resource.Tree) []string {
	requests, _ := kind.Get(obj, "spec", "tokenRequests").([]any)
	if len(requests) == 0 || kind.Get(obj, "spec", "serviceAccountTokenInSecrets") != nil {
		return nil
	}
	if old != nil && reflect.DeepEqual(kind.Get(old, "spec", "tokenRequests"), any(requests)) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}
