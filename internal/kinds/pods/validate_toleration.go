package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTolerations returns the errors of tolerations.
func ValidateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			all = append(all, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			all = append(all, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			all = append(all, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		all = append(all, validateTolerationValue(t, at)...)
		if t.Effect != "" {
			all = append(all, rule.OneOf(at.Child("effect"), t.Effect,
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		}
	}
	return all
}

func validateTolerationValue(t corev1.Toleration, path *field.Path) field.ErrorList {
	supported := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, rule.Join(problems))}
		}
		return nil
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return field.ErrorList{field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")}
		}
		return nil
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // known, and off by default
		supported = append(supported, corev1.TolerationOpLt, corev1.TolerationOpGt)
	}
	return field.ErrorList{field.NotSupported(path.Child("operator"), t.Operator, supported)}
}
