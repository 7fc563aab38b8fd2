package apps

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// warnOfStatefulSet warns of fractional bytes in claims and of a negative history limit.
func warnOfStatefulSet(obj, old resource.Tree) []string {
	spec, _ := obj["spec"].(resource.Tree)
	set := kind.Decoded[appsv1.StatefulSetSpec](spec)
	var warnings []string
	for i := range set.VolumeClaimTemplates {
		at := fmt.Sprintf("spec.volumeClaimTemplates[%d]", i)
		if old != nil {
			at += ".Spec" // Kubernetes' path, in updates only
		}
		warnings = append(warnings, warnOfFractions(at, set.VolumeClaimTemplates[i].Spec.Resources)...)
	}
	if limit := set.RevisionHistoryLimit; limit != nil && *limit < 0 {
		warnings = append(warnings, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return warnings
}

func warnOfFractions(at string, resources corev1.VolumeResourceRequirements) []string {
	var warnings []string
	for _, list := range []struct {
		name  string
		value corev1.ResourceList
	}{{"requests", resources.Requests}, {"limits", resources.Limits}} {
		storage := list.value[corev1.ResourceStorage]
		if storage.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", at, list.name, storage.String()))
		}
	}
	return warnings
}
