package builtin

import (
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/builtin/versions"
	"github.com/kapok-dev/kapok/internal/resource"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policy has group policy.
func policy() []row {
	return []row{
		kind[policyv1.PodDisruptionBudget]{
			version:    policyv1.SchemeGroupVersion,
			plural:     "poddisruptionbudgets",
			shortNames: []string{"pdb"},
			defaults:   fill[policyv1.PodDisruptionBudget],
			validate:   validation.PodDisruptionBudget,
			status:     &status[policyv1.PodDisruptionBudget]{validate: validation.PodDisruptionBudgetStatus},
			generation: []string{"spec"},

			prepareCreate: func(obj resource.Tree) { stripAnyPod(obj, nil) },
			prepareUpdate: stripAnyPod,
			table:         tables.PodDisruptionBudgets(),
			retired: []another[policyv1.PodDisruptionBudget]{
				in[policyv1.PodDisruptionBudget, policyv1beta1.PodDisruptionBudget](policyv1beta1.SchemeGroupVersion),
			},
			versioned: true,
			hooks:     resource.Hooks{ValidateName: path.ValidatePathSegmentName},
		}.row(),
	}
}

// stripAnyPod takes out of a selector what v1beta1 says all or nothing with, unless
// that is all that the selector says. In v1beta1 itself conversion sees to it.
func stripAnyPod(obj, old resource.Tree) {
	selector, _ := get(obj, "spec", "selector").(resource.Tree)
	if text(obj, "apiVersion") != policyv1.SchemeGroupVersion.String() || reflect.DeepEqual(selector, get(old, "spec", "selector")) {
		return
	}
	nothing := resource.Tree{"matchExpressions": []any{resource.Tree{"key": versions.AnyPod, "operator": string(metav1.LabelSelectorOpExists)}}}
	if reflect.DeepEqual(selector, nothing) {
		return
	}
	requirements, _ := selector["matchExpressions"].([]any)
	rest := slices.DeleteFunc(requirements, func(r any) bool {
		requirement, _ := r.(resource.Tree)
		return requirement["key"] == versions.AnyPod
	})
	if len(rest) > 0 {
		selector["matchExpressions"] = rest
	} else {
		delete(selector, "matchExpressions")
	}
}
