package validation

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func PodDisruptionBudget(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	spec, path := &b.Spec, field.NewPath("spec")
	var all field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		all = append(all, field.Invalid(path, asInternal(spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, n := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if n.value != nil {
			all = append(all, validateAmount(*n.value, path.Child(n.name))...)
			all = append(all, validateShare(*n.value, path.Child(n.name))...)
		}
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	if old != nil { // what was wrong may stay so
		options.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(old.Spec.Selector, options, nil)) > 0
	}
	all = append(all, metav1validation.ValidateLabelSelector(spec.Selector, options, path.Child("selector"))...)
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil && *policy != policyv1.AlwaysAllow && *policy != policyv1.IfHealthyBudget {
		all = append(all, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *policy,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}))
	}
	return all
}

func PodDisruptionBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	status, path := &b.Status, field.NewPath("status")
	all := metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))
	return append(all, validateCounts(path, []count{
		{"disruptionsAllowed", int64(status.DisruptionsAllowed)}, {"currentHealthy", int64(status.CurrentHealthy)},
		{"desiredHealthy", int64(status.DesiredHealthy)}, {"expectedPods", int64(status.ExpectedPods)},
	})...)
}
