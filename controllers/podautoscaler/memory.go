package podautoscaler

import (
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
)

// The longest window and period that the server accepts in an autoscaler. Longer ago does not
// matter.
const (
	longestWindow = time.Hour
	longestPeriod = 30 * time.Minute
)

// A memory holds the recommendations and changes of an autoscaler. The zero value is empty.
//
// recommendations and changes are sorted by time. Of recommendations in a row that are equal only
// the last one is kept: it says as much as all of them, because a window ends now.
type memory struct {
	uid             types.UID // of the autoscaler
	recommendations []recommendation
	added, removed  []change
	tried           *attempt // nil if the outcome of the last change is known
}

// An attempt is a change whose request has failed. It may have happened: an answer can be lost.
type attempt struct {
	from, to int32
	at       time.Time
}

// settle keeps the change that was tried last if it has happened.
func (m *memory) settle(current int32) {
	if t := m.tried; t != nil && t.to == current {
		m.scaled(t.from, t.to, t.at)
	}
	m.tried = nil
}

// A recommendation is a number of replicas for which metrics have asked.
type recommendation struct {
	replicas int32
	at       time.Time
}

// A change is a number of replicas that were added, or removed.
type change struct {
	replicas int32
	at       time.Time
}

// begin makes the replicas that a target has at first the first recommendation.
func (m *memory) begin(replicas int32, now time.Time) {
	if len(m.recommendations) == 0 {
		m.recommend(replicas, now, 0)
	}
}

// recommend keeps a recommendation. window is the one of an autoscaler without a behavior.
func (m *memory) recommend(replicas int32, now time.Time, window time.Duration) {
	if n := len(m.recommendations); n > 0 && m.recommendations[n-1].replicas == replicas {
		m.recommendations[n-1].at = now
	} else {
		m.recommendations = append(m.recommendations, recommendation{replicas, now})
	}
	oldest := now.Add(-max(window, longestWindow))
	m.recommendations = slices.DeleteFunc(m.recommendations, func(r recommendation) bool { return r.at.Before(oldest) })
}

// scaled keeps a change of replicas.
func (m *memory) scaled(from, to int32, now time.Time) {
	changes, n := &m.added, to-from
	if to < from {
		changes, n = &m.removed, from-to
	}
	oldest := now.Add(-longestPeriod)
	*changes = slices.DeleteFunc(*changes, func(c change) bool { return c.at.Before(oldest) })
	*changes = append(*changes, change{n, now})
}

// before returns the replicas that a target had at the start of a period.
func (m *memory) before(current, periodSeconds int32, now time.Time) int64 {
	start := now.Add(-time.Duration(periodSeconds) * time.Second)
	n := int64(current)
	for _, c := range m.added {
		if c.at.After(start) {
			n -= int64(c.replicas)
		}
	}
	for _, c := range m.removed {
		if c.at.After(start) {
			n += int64(c.replicas)
		}
	}
	return n
}

// most returns to how many replicas rules allow to scale up: at least the current ones.
func (m *memory) most(current int32, rules *autoscalingv2.HPAScalingRules, now time.Time) int32 {
	choose := slices.Max[[]int32]
	if selects(rules) == autoscalingv2.MinChangePolicySelect {
		choose = slices.Min[[]int32]
	}
	limits := []int32{current}
	if selects(rules) != autoscalingv2.DisabledPolicySelect && len(rules.Policies) > 0 {
		limits = nil
		for _, p := range rules.Policies {
			before := float64(m.before(current, p.PeriodSeconds, now))
			if p.Type == autoscalingv2.PodsScalingPolicy {
				limits = append(limits, replicasOf(before+float64(p.Value)))
			} else {
				// Rounded up, so that one replica can become two.
				limits = append(limits, replicasOf(before*(1+float64(p.Value)/100)))
			}
		}
	}
	return max(current, choose(limits))
}

// least returns to how many replicas rules allow to scale down: at most the current ones.
func (m *memory) least(current int32, rules *autoscalingv2.HPAScalingRules, now time.Time) int32 {
	choose := slices.Min[[]int32]
	if selects(rules) == autoscalingv2.MinChangePolicySelect {
		choose = slices.Max[[]int32]
	}
	limits := []int32{current}
	if selects(rules) != autoscalingv2.DisabledPolicySelect && len(rules.Policies) > 0 {
		limits = nil
		for _, p := range rules.Policies {
			before := float64(m.before(current, p.PeriodSeconds, now))
			if p.Type == autoscalingv2.PodsScalingPolicy {
				limits = append(limits, replicasOf(before-float64(p.Value)))
			} else {
				limits = append(limits, replicasOf(math.Trunc(before*(1-float64(p.Value)/100))))
			}
		}
	}
	return min(current, choose(limits))
}

// selects returns which policy of rules counts. The server sets a default.
func selects(rules *autoscalingv2.HPAScalingRules) autoscalingv2.ScalingPolicySelect {
	if rules.SelectPolicy == nil {
		return autoscalingv2.MaxChangePolicySelect
	}
	return *rules.SelectPolicy
}
