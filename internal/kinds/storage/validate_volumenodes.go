package storage

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumeNodes returns the errors of a volume's node affinity. With excused, invalid label
// values of old objects are tolerated.
func validateVolumeNodes(affinity *corev1.VolumeNodeAffinity, excused bool, at *field.Path) field.ErrorList {
	at = at.Child("required")
	if affinity.Required == nil {
		return field.ErrorList{field.Required(at, "must specify required node constraints")}
	}
	return rule.ValidateNodeSelector(affinity.Required, !excused, at)
}

func hasWrongLabelValue(selector *corev1.NodeSelector) bool {
	return selector != nil && slices.ContainsFunc(selector.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(r.Values, func(value string) bool { return len(validation.IsValidLabelValue(value)) > 0 })
		})
	})
}

// newLabel returns the stable name of a beta node label.
func newLabel(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	case "beta.kubernetes.io/os":
		return corev1.LabelOSStable
	case "beta.kubernetes.io/arch":
		return corev1.LabelArchStable
	}
	return key
}

// withNewLabels returns the old affinity with beta labels replaced wherever the new one has
// replaced them.
func withNewLabels(before, now *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if before.Required == nil || now == nil || now.Required == nil {
		return before
	}
	renamed := before.DeepCopy()
	for i, term := range renamed.Required.NodeSelectorTerms {
		if i == len(now.Required.NodeSelectorTerms) {
			break
		}
		expressions := now.Required.NodeSelectorTerms[i].MatchExpressions
		for j := range min(len(term.MatchExpressions), len(expressions)) {
			if key := expressions[j].Key; newLabel(term.MatchExpressions[j].Key) == key {
				term.MatchExpressions[j].Key = key
			}
		}
	}
	return renamed
}
