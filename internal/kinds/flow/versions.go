package flow

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
)

// Conversions are the conversions of this group's types: before v1, concurrency shares had another
// name and could not be 0.
func Conversions() []convert.Rule {
	const noShares = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	return []convert.Rule{
		kind.Same[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchema](),
		kind.Same[flowcontrolv1.FlowSchema, flowcontrolv1beta3.FlowSchema](),
		kind.Same[flowcontrolv1.FlowSchema, flowcontrolv1beta2.FlowSchema](),
		kind.Same[flowcontrolv1.FlowSchema, flowcontrolv1beta1.FlowSchema](),

		kind.Same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfiguration](),
		kind.Same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1beta2.PriorityLevelConfiguration](),
		kind.Same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1beta1.PriorityLevelConfiguration](),
		convert.Spoke(
			func(_ *flowcontrolv1beta3.PriorityLevelConfiguration, hub *flowcontrolv1.PriorityLevelConfiguration) error {
				delete(hub.Annotations, noShares)
				return nil
			},
			func(hub *flowcontrolv1.PriorityLevelConfiguration, out *flowcontrolv1beta3.PriorityLevelConfiguration) error {
				if out.Spec.Limited != nil && out.Spec.Limited.NominalConcurrencyShares == 0 {
					if out.Annotations == nil {
						out.Annotations = map[string]string{}
					}
					out.Annotations[noShares] = ""
				}
				return nil
			},
		),
		kind.Both(
			func(in *flowcontrolv1beta3.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = kind.Clone(&in.NominalConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta3.LimitedPriorityLevelConfiguration) error {
				out.NominalConcurrencyShares = kind.Value(hub.NominalConcurrencyShares)
				return nil
			},
		),
		kind.Both(
			func(in *flowcontrolv1beta2.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = kind.Clone(&in.AssuredConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta2.LimitedPriorityLevelConfiguration) error {
				out.AssuredConcurrencyShares = kind.Value(hub.NominalConcurrencyShares)
				return nil
			},
		),
		kind.Both(
			func(in *flowcontrolv1beta1.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = kind.Clone(&in.AssuredConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta1.LimitedPriorityLevelConfiguration) error {
				out.AssuredConcurrencyShares = kind.Value(hub.NominalConcurrencyShares)
				return nil
			},
		),
	}
}
