package flow

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
)

// The defaults of flow schemas and priority levels.
const (
	matchingPrecedence = 1000
	concurrencyShares  = 30
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(s *flowcontrolv1.FlowSchemaSpec) { defaults.Value(&s.MatchingPrecedence, matchingPrecedence) })
	defaults.On(f, func(s *flowcontrolv1beta1.FlowSchemaSpec) { defaults.Value(&s.MatchingPrecedence, matchingPrecedence) })
	defaults.On(f, func(s *flowcontrolv1beta2.FlowSchemaSpec) { defaults.Value(&s.MatchingPrecedence, matchingPrecedence) })
	defaults.On(f, func(s *flowcontrolv1beta3.FlowSchemaSpec) { defaults.Value(&s.MatchingPrecedence, matchingPrecedence) })

	defaults.On(f, func(q *flowcontrolv1.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	defaults.On(f, func(q *flowcontrolv1beta1.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	defaults.On(f, func(q *flowcontrolv1beta2.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	defaults.On(f, func(q *flowcontrolv1beta3.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})

	defaults.On(f, func(e *flowcontrolv1.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	defaults.On(f, func(e *flowcontrolv1beta1.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	defaults.On(f, func(e *flowcontrolv1beta2.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	defaults.On(f, func(e *flowcontrolv1beta3.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})

	defaults.On(f, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		defaults.Pointer(&l.NominalConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	defaults.On(f, func(l *flowcontrolv1beta1.LimitedPriorityLevelConfiguration) {
		defaults.Value(&l.AssuredConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	defaults.On(f, func(l *flowcontrolv1beta2.LimitedPriorityLevelConfiguration) {
		defaults.Value(&l.AssuredConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	defaults.On(f, func(l *flowcontrolv1beta3.LimitedPriorityLevelConfiguration) { zero(&l.LendablePercent) })
	// In v1beta3, only an annotation distinguishes 0 shares from missing ones.
	defaults.On(f, func(p *flowcontrolv1beta3.PriorityLevelConfiguration) {
		if _, kept := p.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; p.Spec.Limited != nil && !kept {
			defaults.Value(&p.Spec.Limited.NominalConcurrencyShares, concurrencyShares)
		}
	})
}

func defaultQueuing(hand, queues, length *int32) {
	defaults.Value(hand, 8)
	defaults.Value(queues, 64)
	defaults.Value(length, 50)
}

func zero(numbers ...**int32) {
	for _, n := range numbers {
		defaults.Pointer(n, 0)
	}
}
