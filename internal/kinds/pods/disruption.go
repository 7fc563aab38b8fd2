package pods

import (
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy has group policy.
func Policy() []kind.Row {
	return []kind.Row{
		kind.Kind[*policyv1.PodDisruptionBudget]{
			Version:    policyv1.SchemeGroupVersion,
			Plural:     "poddisruptionbudgets",
			ShortNames: []string{"pdb"},
			Filled:     true,
			Validate:   validatePodDisruptionBudget,
			Status:     &kind.Status[*policyv1.PodDisruptionBudget]{Validate: validatePodDisruptionBudgetStatus},
			Generation: []string{"spec"},

			PrepareCreate: func(obj resource.Tree) { stripAnyPod(obj, nil) },
			PrepareUpdate: stripAnyPod,
			Table:         podDisruptionBudgetsTable(),
			Retired: []kind.Another[*policyv1.PodDisruptionBudget]{
				kind.In[*policyv1.PodDisruptionBudget, *policyv1beta1.PodDisruptionBudget](policyv1beta1.SchemeGroupVersion),
			},
			Versioned: true,
			Strategy:  resource.Strategy{ValidateName: path.ValidatePathSegmentName},
		}.Row(),
	}
}

// stripAnyPod removes the requirements by which v1beta1 selects all or no pods from a selector,
// unless it has no others. In v1beta1 itself, conversion does this.
func stripAnyPod(obj, old resource.Tree) {
	selector, _ := kind.Get(obj, "spec", "selector").(resource.Tree)
	if kind.Text(obj, "apiVersion") != policyv1.SchemeGroupVersion.String() || reflect.DeepEqual(selector, kind.Get(old, "spec", "selector")) {
		return
	}
	nothing := resource.Tree{"matchExpressions": []any{resource.Tree{"key": anyPod, "operator": string(metav1.LabelSelectorOpExists)}}}
	if reflect.DeepEqual(selector, nothing) {
		return
	}
	requirements, _ := selector["matchExpressions"].([]any)
	rest := slices.DeleteFunc(requirements, func(r any) bool {
		requirement, _ := r.(resource.Tree)
		return requirement["key"] == anyPod
	})
	if len(rest) > 0 {
		selector["matchExpressions"] = rest
	} else {
		delete(selector, "matchExpressions")
	}
}
