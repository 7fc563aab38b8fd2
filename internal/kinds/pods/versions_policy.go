package pods

import (
	"slices"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// anyPod is a label that no pod has. Selectors use it to express their meaning in the other
// version: an empty selector selects nothing in v1beta1 and everything in v1.
const anyPod = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func policy() []convert.Rule {
	all, none := &metav1.LabelSelector{}, byLabel(metav1.LabelSelectorOpExists)
	allBeta, noneBeta := byLabel(metav1.LabelSelectorOpDoesNotExist), &metav1.LabelSelector{}
	return []convert.Rule{
		kind.Same[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudget](),
		convert.Spoke(
			func(in *policyv1beta1.PodDisruptionBudget, hub *policyv1.PodDisruptionBudget) error {
				switch selector := hub.Spec.Selector; {
				case equality.Semantic.DeepEqual(selector, noneBeta):
					hub.Spec.Selector = none.DeepCopy()
				case equality.Semantic.DeepEqual(selector, allBeta):
					hub.Spec.Selector = all.DeepCopy()
				case selector != nil:
					selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
						return r.Key == anyPod
					})
				}
				return nil
			},
			func(hub *policyv1.PodDisruptionBudget, out *policyv1beta1.PodDisruptionBudget) error {
				switch {
				case equality.Semantic.DeepEqual(hub.Spec.Selector, none):
					out.Spec.Selector = noneBeta.DeepCopy()
				case equality.Semantic.DeepEqual(hub.Spec.Selector, all):
					out.Spec.Selector = allBeta.DeepCopy()
				}
				return nil
			},
		),
		kind.Same[policyv1.Eviction, policyv1.Eviction](),
		kind.Same[policyv1.Eviction, policyv1beta1.Eviction](),
	}
}

func byLabel(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: anyPod, Operator: op}}}
}
