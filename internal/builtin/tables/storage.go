package tables

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// StorageClasses is the table of storage classes.
func StorageClasses() Table[storagev1.StorageClass] {
	return Table[storagev1.StorageClass]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Provisioner", storagev1.StorageClass{}, "provisioner"),
		fieldColumn("ReclaimPolicy", storagev1.StorageClass{}, "reclaimPolicy"),
		fieldColumn("VolumeBindingMode", storagev1.StorageClass{}, "volumeBindingMode"),
		fieldColumn("AllowVolumeExpansion", storagev1.StorageClass{}, "allowVolumeExpansion"),
		ageColumn(),
	}, Cells: storageClassCells, Default: isDefaultClass}
}

func isDefaultClass(c *storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

func storageClassCells(c *storagev1.StorageClass, now time.Time) []any {
	return []any{
		c.Name, c.Provisioner, string(ptr.Deref(c.ReclaimPolicy, "Delete")), textOrUnset(c.VolumeBindingMode),
		ptr.Deref(c.AllowVolumeExpansion, false), age(c.ObjectMeta, now),
	}
}

// VolumeAttributesClasses is the table of volume attributes classes.
func VolumeAttributesClasses() Table[storagev1.VolumeAttributesClass] {
	return Table[storagev1.VolumeAttributesClass]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("DriverName", storagev1.VolumeAttributesClass{}, "driverName"), ageColumn(),
	}, Cells: volumeAttributesClassCells}
}

func volumeAttributesClassCells(c *storagev1.VolumeAttributesClass, now time.Time) []any {
	return []any{c.Name, c.DriverName, age(c.ObjectMeta, now)}
}

// VolumeAttachments is the table of volume attachments.
func VolumeAttachments() Table[storagev1.VolumeAttachment] {
	attacher := fieldColumn("Attacher", storagev1.VolumeAttachmentSpec{}, "attacher")
	attacher.Format = "name"
	return Table[storagev1.VolumeAttachment]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		attacher,
		fieldColumn("PV", storagev1.VolumeAttachmentSource{}, "persistentVolumeName"),
		fieldColumn("Node", storagev1.VolumeAttachmentSpec{}, "nodeName"),
		ofBool(fieldColumn("Attached", storagev1.VolumeAttachmentStatus{}, "attached")),
		ageColumn(),
	}, Cells: volumeAttachmentCells}
}

func volumeAttachmentCells(a *storagev1.VolumeAttachment, now time.Time) []any {
	return []any{
		a.Name, a.Spec.Attacher, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, age(a.ObjectMeta, now),
	}
}

// CSINodes is the table of CSI nodes.
func CSINodes() Table[storagev1.CSINode] {
	return Table[storagev1.CSINode]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), ofInt(column("Drivers", "Drivers indicates the number of CSI drivers registered on the node")), ageColumn(),
	}, Cells: csiNodeCells}
}

func csiNodeCells(n *storagev1.CSINode, now time.Time) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), age(n.ObjectMeta, now)}
}

// CSIDrivers is the table of CSI drivers.
func CSIDrivers() Table[storagev1.CSIDriver] {
	return Table[storagev1.CSIDriver]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		ofBool(fieldColumn("AttachRequired", storagev1.CSIDriverSpec{}, "attachRequired")),
		ofBool(fieldColumn("PodInfoOnMount", storagev1.CSIDriverSpec{}, "podInfoOnMount")),
		ofBool(fieldColumn("StorageCapacity", storagev1.CSIDriverSpec{}, "storageCapacity")),
		fieldColumn("TokenRequests", storagev1.CSIDriverSpec{}, "tokenRequests"),
		ofBool(fieldColumn("RequiresRepublish", storagev1.CSIDriverSpec{}, "requiresRepublish")),
		fieldColumn("Modes", storagev1.CSIDriverSpec{}, "volumeLifecycleModes"),
		ageColumn(),
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
		tokens, ptr.Deref(spec.RequiresRepublish, false), orNone(strings.Join(modes, ",")), age(d.ObjectMeta, now),
	}
}

func ofBool(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = "boolean"
	return column
}

func ofInt(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = "integer"
	return column
}
