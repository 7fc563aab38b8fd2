package versions

import (
	"slices"

	"github.com/kapok-dev/kapok/convert"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnyPod is a label that no pod has. With it v1beta1, where an empty selector selects nothing, says that it selects all;
// and v1, where it selects all, that it selects nothing.
const AnyPod = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func policy() []convert.Rule {
	all, none := &metav1.LabelSelector{}, byLabel(metav1.LabelSelectorOpExists)
	allBeta, noneBeta := byLabel(metav1.LabelSelectorOpDoesNotExist), &metav1.LabelSelector{}
	return []convert.Rule{
		same[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudget](),
		convert.Spoke(
			func(in *policyv1beta1.PodDisruptionBudget, hub *policyv1.PodDisruptionBudget) error {
				switch selector := hub.Spec.Selector; {
				case equality.Semantic.DeepEqual(selector, noneBeta):
					hub.Spec.Selector = none.DeepCopy()
				case equality.Semantic.DeepEqual(selector, allBeta):
					hub.Spec.Selector = all.DeepCopy()
				case selector != nil:
					selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
						return r.Key == AnyPod
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
		same[policyv1.Eviction, policyv1.Eviction](),
		same[policyv1.Eviction, policyv1beta1.Eviction](),
	}
}

func byLabel(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: AnyPod, Operator: op}}}
}
