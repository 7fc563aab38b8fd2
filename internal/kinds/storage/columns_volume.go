package storage

import (
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// persistentVolumesTable is the table of persistent volumes.
func persistentVolumesTable() kind.Table[*corev1.PersistentVolume] {
	return kind.Table[*corev1.PersistentVolume]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Capacity", corev1.PersistentVolumeSpec{}, "capacity"),
		kind.FieldColumn("Access Modes", corev1.PersistentVolumeSpec{}, "accessModes"),
		kind.FieldColumn("Reclaim Policy", corev1.PersistentVolumeSpec{}, "persistentVolumeReclaimPolicy"),
		kind.FieldColumn("Status", corev1.PersistentVolumeStatus{}, "phase"),
		kind.FieldColumn("Claim", corev1.PersistentVolumeSpec{}, "claimRef"),
		kind.Column("StorageClass", "StorageClass of the pv"),
		kind.Column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		kind.FieldColumn("Reason", corev1.PersistentVolumeStatus{}, "reason"),
		kind.AgeColumn(),
		kind.Wide(kind.FieldColumn("VolumeMode", corev1.PersistentVolumeSpec{}, "volumeMode")),
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
		textOrUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, kind.Age(v.ObjectMeta, now), textOrUnset(v.Spec.VolumeMode),
	}
}

// persistentVolumeClaimsTable is the table of persistent volume claims.
func persistentVolumeClaimsTable() kind.Table[*corev1.PersistentVolumeClaim] {
	return kind.Table[*corev1.PersistentVolumeClaim]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Status", corev1.PersistentVolumeClaimStatus{}, "phase"),
		kind.FieldColumn("Volume", corev1.PersistentVolumeClaimSpec{}, "volumeName"),
		kind.FieldColumn("Capacity", corev1.PersistentVolumeClaimStatus{}, "capacity"),
		kind.FieldColumn("Access Modes", corev1.PersistentVolumeClaimStatus{}, "accessModes"),
		kind.Column("StorageClass", "StorageClass of the pvc"),
		kind.Column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
		kind.AgeColumn(),
		kind.Wide(kind.FieldColumn("VolumeMode", corev1.PersistentVolumeClaimSpec{}, "volumeMode")),
	}, Cells: persistentVolumeClaimCells}
}

func persistentVolumeClaimCells(c *corev1.PersistentVolumeClaim, now time.Time) []any {
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" { // an unbound claim has no capacity and no access modes
		capacity, modes = storageCell(c.Status.Capacity), accessModesCell(c.Status.AccessModes)
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return []any{
		c.Name, phaseCell(c.Status.Phase, c.ObjectMeta), c.Spec.VolumeName, capacity, modes, storageClassCell(c.Annotations, class),
		textOrUnset(c.Spec.VolumeAttributesClassName), kind.Age(c.ObjectMeta, now), textOrUnset(c.Spec.VolumeMode),
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

// storageClassCell returns the class named by the annotation that preceded the field, or else that
// of the field.
func storageClassCell(annotations map[string]string, class string) string {
	if beta, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return beta
	}
	return class
}

// accessModesCell returns the abbreviated access modes in a fixed order.
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

// textOrUnset returns the cell of an optional string.
func textOrUnset[S ~string](s *S) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}
