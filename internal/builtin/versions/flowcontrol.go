package versions

import (
	"github.com/kapok-dev/kapok/convert"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
)

// flowcontrol: concurrency shares had another name, and could not be nothing, before v1.
func flowcontrol() []convert.Rule {
	const noShares = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	return []convert.Rule{
		same[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchema](),
		same[flowcontrolv1.FlowSchema, flowcontrolv1beta3.FlowSchema](),
		same[flowcontrolv1.FlowSchema, flowcontrolv1beta2.FlowSchema](),
		same[flowcontrolv1.FlowSchema, flowcontrolv1beta1.FlowSchema](),

		same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfiguration](),
		same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1beta2.PriorityLevelConfiguration](),
		same[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1beta1.PriorityLevelConfiguration](),
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
		both(
			func(in *flowcontrolv1beta3.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = clone(&in.NominalConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta3.LimitedPriorityLevelConfiguration) error {
				out.NominalConcurrencyShares = value(hub.NominalConcurrencyShares)
				return nil
			},
		),
		both(
			func(in *flowcontrolv1beta2.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = clone(&in.AssuredConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta2.LimitedPriorityLevelConfiguration) error {
				out.AssuredConcurrencyShares = value(hub.NominalConcurrencyShares)
				return nil
			},
		),
		both(
			func(in *flowcontrolv1beta1.LimitedPriorityLevelConfiguration, hub *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
				hub.NominalConcurrencyShares = clone(&in.AssuredConcurrencyShares)
				return nil
			},
			func(hub *flowcontrolv1.LimitedPriorityLevelConfiguration, out *flowcontrolv1beta1.LimitedPriorityLevelConfiguration) error {
				out.AssuredConcurrencyShares = value(hub.NominalConcurrencyShares)
				return nil
			},
		),
	}
}
