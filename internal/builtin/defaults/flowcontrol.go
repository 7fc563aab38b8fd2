package defaults

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
)

// What flow schemas and priority levels are given.
const (
	matchingPrecedence = 1000
	concurrencyShares  = 30
)

func flowcontrolTypes(f *functions) {
	on(f, func(s *flowcontrolv1.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) })
	on(f, func(s *flowcontrolv1beta1.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) })
	on(f, func(s *flowcontrolv1beta2.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) })
	on(f, func(s *flowcontrolv1beta3.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) })

	on(f, func(q *flowcontrolv1.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	on(f, func(q *flowcontrolv1beta1.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	on(f, func(q *flowcontrolv1beta2.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})
	on(f, func(q *flowcontrolv1beta3.QueuingConfiguration) {
		defaultQueuing(&q.HandSize, &q.Queues, &q.QueueLengthLimit)
	})

	on(f, func(e *flowcontrolv1.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	on(f, func(e *flowcontrolv1beta1.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	on(f, func(e *flowcontrolv1beta2.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})
	on(f, func(e *flowcontrolv1beta3.ExemptPriorityLevelConfiguration) {
		zero(&e.NominalConcurrencyShares, &e.LendablePercent)
	})

	on(f, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		set(&l.NominalConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	on(f, func(l *flowcontrolv1beta1.LimitedPriorityLevelConfiguration) {
		fill(&l.AssuredConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	on(f, func(l *flowcontrolv1beta2.LimitedPriorityLevelConfiguration) {
		fill(&l.AssuredConcurrencyShares, concurrencyShares)
		zero(&l.LendablePercent)
	})
	on(f, func(l *flowcontrolv1beta3.LimitedPriorityLevelConfiguration) { zero(&l.LendablePercent) })
	// In v1beta3 no shares at all can be told from nothing said by an annotation only.
	on(f, func(p *flowcontrolv1beta3.PriorityLevelConfiguration) {
		if _, kept := p.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; p.Spec.Limited != nil && !kept {
			fill(&p.Spec.Limited.NominalConcurrencyShares, concurrencyShares)
		}
	})
}

func defaultQueuing(hand, queues, length *int32) {
	fill(hand, 8)
	fill(queues, 64)
	fill(length, 50)
}

func zero(numbers ...**int32) {
	for _, n := range numbers {
		set(n, 0)
	}
}
