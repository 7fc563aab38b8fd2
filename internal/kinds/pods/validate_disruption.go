package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	policyv1 "k8s.io/api/policy/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodDisruptionBudget(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	spec, path := &b.Spec, field.NewPath("spec")
	var all field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		all = append(all, field.Invalid(path, rule.AsInternal(spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, n := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if n.value != nil {
			all = append(all, rule.ValidateAmount(*n.value, path.Child(n.name))...)
			all = append(all, rule.ValidateShare(*n.value, path.Child(n.name))...)
		}
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	if old != nil { // old errors are tolerated
		options.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(old.Spec.Selector, options, nil)) > 0
	}
	all = append(all, metav1validation.ValidateLabelSelector(spec.Selector, options, path.Child("selector"))...)
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil && *policy != policyv1.AlwaysAllow && *policy != policyv1.IfHealthyBudget {
		all = append(all, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *policy,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}))
	}
	return all
}

func validatePodDisruptionBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	status, path := &b.Status, field.NewPath("status")
	all := metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))
	return append(all, ValidateCounts(path, []Count{
		{"disruptionsAllowed", int64(status.DisruptionsAllowed)}, {"currentHealthy", int64(status.CurrentHealthy)},
		{"desiredHealthy", int64(status.DesiredHealthy)}, {"expectedPods", int64(status.ExpectedPods)},
	})...)
}
