package storage

import (
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// storageClassesTable is the table of storage classes.
func storageClassesTable() kind.Table[*storagev1.StorageClass] {
	return kind.Table[*storagev1.StorageClass]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Provisioner", storagev1.StorageClass{}, "provisioner"),
		kind.FieldColumn("ReclaimPolicy", storagev1.StorageClass{}, "reclaimPolicy"),
		kind.FieldColumn("VolumeBindingMode", storagev1.StorageClass{}, "volumeBindingMode"),
		kind.FieldColumn("AllowVolumeExpansion", storagev1.StorageClass{}, "allowVolumeExpansion"),
		kind.AgeColumn(),
	}, Cells: storageClassCells, Default: isDefaultClass}
}

func isDefaultClass(c *storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

func storageClassCells(c *storagev1.StorageClass, now time.Time) []any {
	return []any{
		c.Name, c.Provisioner, string(ptr.Deref(c.ReclaimPolicy, "Delete")), textOrUnset(c.VolumeBindingMode),
		ptr.Deref(c.AllowVolumeExpansion, false), kind.Age(c.ObjectMeta, now),
	}
}

// volumeAttributesClassesTable is the table of volume attributes classes.
func volumeAttributesClassesTable() kind.Table[*storagev1.VolumeAttributesClass] {
	return kind.Table[*storagev1.VolumeAttributesClass]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("DriverName", storagev1.VolumeAttributesClass{}, "driverName"), kind.AgeColumn(),
	}, Cells: volumeAttributesClassCells}
}

func volumeAttributesClassCells(c *storagev1.VolumeAttributesClass, now time.Time) []any {
	return []any{c.Name, c.DriverName, kind.Age(c.ObjectMeta, now)}
}

// volumeAttachmentsTable is the table of volume attachments.
func volumeAttachmentsTable() kind.Table[*storagev1.VolumeAttachment] {
	attacher := kind.FieldColumn("Attacher", storagev1.VolumeAttachmentSpec{}, "attacher")
	attacher.Format = "name"
	return kind.Table[*storagev1.VolumeAttachment]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		attacher,
		kind.FieldColumn("PV", storagev1.VolumeAttachmentSource{}, "persistentVolumeName"),
		kind.FieldColumn("Node", storagev1.VolumeAttachmentSpec{}, "nodeName"),
		kind.OfBool(kind.FieldColumn("Attached", storagev1.VolumeAttachmentStatus{}, "attached")),
		kind.AgeColumn(),
	}, Cells: volumeAttachmentCells}
}

func volumeAttachmentCells(a *storagev1.VolumeAttachment, now time.Time) []any {
	return []any{
		a.Name, a.Spec.Attacher, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, kind.Age(a.ObjectMeta, now),
	}
}

// csiNodesTable is the table of CSI nodes.
func csiNodesTable() kind.Table[*storagev1.CSINode] {
	return kind.Table[*storagev1.CSINode]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.OfInt(kind.Column("Drivers", "Drivers indicates the number of CSI drivers registered on the node")), kind.AgeColumn(),
	}, Cells: csiNodeCells}
}

func csiNodeCells(n *storagev1.CSINode, now time.Time) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), kind.Age(n.ObjectMeta, now)}
}

// csiDriversTable is the table of CSI drivers.
func csiDriversTable() kind.Table[*storagev1.CSIDriver] {
	return kind.Table[*storagev1.CSIDriver]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.OfBool(kind.FieldColumn("AttachRequired", storagev1.CSIDriverSpec{}, "attachRequired")),
		kind.OfBool(kind.FieldColumn("PodInfoOnMount", storagev1.CSIDriverSpec{}, "podInfoOnMount")),
		kind.OfBool(kind.FieldColumn("StorageCapacity", storagev1.CSIDriverSpec{}, "storageCapacity")),
		kind.FieldColumn("TokenRequests", storagev1.CSIDriverSpec{}, "tokenRequests"),
		kind.OfBool(kind.FieldColumn("RequiresRepublish", storagev1.CSIDriverSpec{}, "requiresRepublish")),
		kind.FieldColumn("Modes", storagev1.CSIDriverSpec{}, "volumeLifecycleModes"),
		kind.AgeColumn(),
	}, Cells: csiDriverCells}
}

func csiDriverCells(d *storagev1.CSIDriver, now time.Time) []any {
	spec := &d.Spec
	var modes, audiences []string
	for _, mode := range spec.VolumeLifecycleModes {
		modes = append(modes, string(mode))
	}
	for _, request := range spec.TokenRequests {
		audiences = append(audiences, request.Audience)
	}
	tokens := "<unset>"
	if spec.TokenRequests != nil {
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		d.Name, ptr.Deref(spec.AttachRequired, true), ptr.Deref(spec.PodInfoOnMount, false), ptr.Deref(spec.StorageCapacity, false),
		tokens, ptr.Deref(spec.RequiresRepublish, false), kind.OrNone(strings.Join(modes, ",")), kind.Age(d.ObjectMeta, now),
	}
}
