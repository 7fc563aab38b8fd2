package flow

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/ptr"
)

// TestLevelNeedsShares checks the limits of a level's shares.
func TestLevelNeedsShares(t *testing.T) {
	for _, c := range []struct {
		lends int32
		ok    bool
	}{{-1, false}, {0, true}, {100, true}, {101, false}} {
		level := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To[int32](1), LendablePercent: &c.lends,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}}
		if errs := validatePriorityLevelConfiguration(level, nil); (len(errs) == 0) != c.ok {
			t.Errorf("%d: %v", c.lends, errs)
		}
	}
}
