package storage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	classAnnotationIsOld = `deprecated since v1.8; use "storageClassName" attribute instead`
	mountAnnotationIsOld = `deprecated since v1.31; use "mountOptions" attribute instead`
)

// WarnOfNode warns of fields without effect.
func WarnOfNode(obj, _ resource.Tree) (warnings []string) {
	spec := kind.Decoded[corev1.Node](obj).Spec
	if spec.ConfigSource != nil {
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, value := range spec.PodCIDRs {
		warnings = append(warnings, RangeWarnings(field.NewPath("spec", "podCIDRs").Index(i), value)...)
	}
	return warnings
}

// warnOfPersistentVolume warns of deprecated annotations and labels, and of volume types that are
// no longer mounted.
func warnOfPersistentVolume(obj, _ resource.Tree) (warnings []string) {
	v := kind.Decoded[corev1.PersistentVolume](obj)
	for _, old := range []struct{ annotation, message string }{
		{corev1.BetaStorageClassAnnotation, classAnnotationIsOld}, {corev1.MountOptionAnnotation, mountAnnotationIsOld},
	} {
		if _, ok := v.Annotations[old.annotation]; ok {
			warnings = append(warnings, fmt.Sprintf("metadata.annotations[%s]: %s", old.annotation, old.message))
		}
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if affinity := v.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		for i, term := range affinity.Required.NodeSelectorTerms {
			for j, r := range term.MatchExpressions {
				if message := OldNodeLabel(r.Key); message != "" {
					warnings = append(warnings, fmt.Sprintf("spec.nodeAffinity.required.nodeSelectorTerms[%d].matchExpressions[%d].key: %s is %s", i, j, r.Key, message))
				}
			}
		}
	}
	source := &v.Spec.PersistentVolumeSource
	for _, old := range []struct {
		set             bool
		name            string
		deprecated, end int
	}{
		{source.CephFS != nil, "cephfs", 28, 31},
		{source.PhotonPersistentDisk != nil, "photonPersistentDisk", 11, 16},
		{source.ScaleIO != nil, "scaleIO", 16, 22},
		{source.StorageOS != nil, "storageOS", 22, 25},
		{source.Glusterfs != nil, "glusterfs", 25, 26},
		{source.RBD != nil, "rbd", 28, 31},
	} {
		if old.set {
			warnings = append(warnings, fmt.Sprintf("spec.%s: deprecated in v1.%d, non-functional in v1.%d+", old.name, old.deprecated, old.end))
		}
	}
	return warnings
}

// warnOfClaim warns of fractional bytes.
func warnOfClaim(obj, _ resource.Tree) (warnings []string) {
	claim := kind.Decoded[corev1.PersistentVolumeClaim](obj)
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		warnings = append(warnings, fmt.Sprintf("metadata.annotations[%s]: %s", corev1.BetaStorageClassAnnotation, classAnnotationIsOld))
	}
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"requests", claim.Spec.Resources.Requests}, {"limits", claim.Spec.Resources.Limits}} {
		if size := list.of[corev1.ResourceStorage]; size.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("spec.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", list.name, size.String()))
		}
	}
	return warnings
}

func warnOfStorageClass(obj, _ resource.Tree) (warnings []string) {
	for i, term := range kind.Decoded[storagev1.StorageClass](obj).AllowedTopologies {
		for j, e := range term.MatchLabelExpressions {
			if message := OldNodeLabel(e.Key); message != "" {
				warnings = append(warnings, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s", i, j, message))
			}
		}
	}
	return warnings
}

func warnOfCapacity(obj, _ resource.Tree) (warnings []string) {
	topology := kind.Decoded[storagev1.CSIStorageCapacity](obj).NodeTopology
	if topology == nil {
		return nil
	}
	for i, e := range topology.MatchExpressions {
		if message := OldNodeLabel(e.Key); message != "" {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchExpressions[%d].key: %s is %s", i, e.Key, message))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(topology.MatchLabels)) {
		if message := OldNodeLabel(label); message != "" {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchLabels.%s: %s", label, message))
		}
	}
	return warnings
}

// OldNodeLabel returns the message that names the replacement of a deprecated node label, "" for
// other labels.
func OldNodeLabel(key string) string {
	since := func(version, now string) string {
		return fmt.Sprintf("deprecated since %s; use %q instead", version, now)
	}
	switch key {
	case "beta.kubernetes.io/arch":
		return since("v1.14", corev1.LabelArchStable)
	case "beta.kubernetes.io/os":
		return since("v1.14", corev1.LabelOSStable)
	case corev1.LabelFailureDomainBetaRegion:
		return since("v1.17", corev1.LabelTopologyRegion)
	case corev1.LabelFailureDomainBetaZone:
		return since("v1.17", corev1.LabelTopologyZone)
	case corev1.LabelInstanceType:
		return since("v1.17", corev1.LabelInstanceTypeStable)
	case "app.kubernetes.io/created-by":
		return "deprecated since v1.9"
	case "scheduler.alpha.kubernetes.io/preferAvoidPods":
		return "deprecated since v1.22; use Taints and Tolerations instead"
	case "node-role.kubernetes.io/master":
		return `use "node-role.kubernetes.io/control-plane" instead`
	}
	return ""
}
