package tables

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PersistentVolumes is the table of persistent volumes.
func PersistentVolumes() Table[corev1.PersistentVolume] {
	return Table[corev1.PersistentVolume]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Capacity", corev1.PersistentVolumeSpec{}, "capacity"),
		fieldColumn("Access Modes", corev1.PersistentVolumeSpec{}, "accessModes"),
		fieldColumn("Reclaim Policy", corev1.PersistentVolumeSpec{}, "persistentVolumeReclaimPolicy"),
		fieldColumn("Status", corev1.PersistentVolumeStatus{}, "phase"),
		fieldColumn("Claim", corev1.PersistentVolumeSpec{}, "claimRef"),
		column("StorageClass", "StorageClass of the pv"),
		column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		fieldColumn("Reason", corev1.PersistentVolumeStatus{}, "reason"),
		ageColumn(),
		wide(fieldColumn("VolumeMode", corev1.PersistentVolumeSpec{}, "volumeMode")),
	}, Cells: persistentVolumeCells}
}

func persistentVolumeCells(v *corev1.PersistentVolume, now time.Time) []any {
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	return []any{
		v.Name, storageCell(v.Spec.Capacity), accessModesCell(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy),
		phaseCell(v.Status.Phase, v.ObjectMeta), claim, storageClassCell(v.Annotations, v.Spec.StorageClassName),
		textOrUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, age(v.ObjectMeta, now), textOrUnset(v.Spec.VolumeMode),
	}
}

// PersistentVolumeClaims is the table of persistent volume claims.
func PersistentVolumeClaims() Table[corev1.PersistentVolumeClaim] {
	return Table[corev1.PersistentVolumeClaim]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Status", corev1.PersistentVolumeClaimStatus{}, "phase"),
		fieldColumn("Volume", corev1.PersistentVolumeClaimSpec{}, "volumeName"),
		fieldColumn("Capacity", corev1.PersistentVolumeClaimStatus{}, "capacity"),
		fieldColumn("Access Modes", corev1.PersistentVolumeClaimStatus{}, "accessModes"),
		column("StorageClass", "StorageClass of the pvc"),
		column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
		ageColumn(),
		wide(fieldColumn("VolumeMode", corev1.PersistentVolumeClaimSpec{}, "volumeMode")),
	}, Cells: persistentVolumeClaimCells}
}

func persistentVolumeClaimCells(c *corev1.PersistentVolumeClaim, now time.Time) []any {
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" { // else nothing is had yet
		capacity, modes = storageCell(c.Status.Capacity), accessModesCell(c.Status.AccessModes)
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return []any{
		c.Name, phaseCell(c.Status.Phase, c.ObjectMeta), c.Spec.VolumeName, capacity, modes, storageClassCell(c.Annotations, class),
		textOrUnset(c.Spec.VolumeAttributesClassName), age(c.ObjectMeta, now), textOrUnset(c.Spec.VolumeMode),
	}
}

func phaseCell[P ~string](phase P, meta metav1.ObjectMeta) string {
	if meta.DeletionTimestamp != nil {
		return "Terminating"
	}
	return string(phase)
}

func storageCell(list corev1.ResourceList) string {
	size := list[corev1.ResourceStorage]
	return size.String()
}

// storageClassCell is the class that the annotation names in which classes were named once, else the one of the spec.
func storageClassCell(annotations map[string]string, class string) string {
	if beta, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return beta
	}
	return class
}

// accessModesCell are the access modes in short, always in the same order.
func accessModesCell(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(modes, m.mode) {
			short = append(short, m.short)
		}
	}
	return strings.Join(short, ",")
}

// textOrUnset is the cell of a text that may be left open.
func textOrUnset[S ~string](s *S) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}
