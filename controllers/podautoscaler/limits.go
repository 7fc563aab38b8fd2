package podautoscaler

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Limits of an autoscaler without a behavior: in one step, replicas are doubled, or become four if
// that is more.
const (
	upFactor = 2
	upLeast  = 4
)

// limits bound the replicas that metrics ask for.
type limits struct {
	memory     *memory
	min, max   int32
	behavior   *autoscalingv2.HorizontalPodAutoscalerBehavior // nil for none; otherwise with both directions
	downWindow time.Duration                                  // if the behavior has none, or there is none
	now        time.Time
}

// A bounded is a limited recommendation, with the conditions AbleToScale and ScalingLimited.
type bounded struct {
	replicas      int32
	able, limited autoscalingv2.HorizontalPodAutoscalerCondition
}

// apply bounds a recommendation, first by what was recommended in the windows, then by how fast and
// how far replicas may change. It keeps the recommendation in the memory.
func (l *limits) apply(current, recommended int32) bounded {
	stable, reason, message := l.stabilize(current, recommended)
	l.memory.recommend(recommended, l.now, l.downWindow)
	var b bounded
	b.able = condition(autoscalingv2.AbleToScale, true, "ReadyForNewScale", "recommended size matches current size")
	if stable != recommended {
		b.able = condition(autoscalingv2.AbleToScale, true, reason, message)
	}
	b.replicas, reason, message = l.rate(current, stable)
	b.limited = condition(autoscalingv2.ScalingLimited, b.replicas != stable, reason, message)
	return b
}

// stabilize returns the replicas that recommendations of the last time and a new one agree on, with
// the reason for a difference from the new one.
func (l *limits) stabilize(current, recommended int32) (n int32, reason, message string) {
	const (
		lower  = "recent recommendations were lower than current one, applying the lowest recent recommendation"
		higher = "recent recommendations were higher than current one, applying the highest recent recommendation"
	)
	if l.behavior == nil {
		n, cutoff := recommended, l.now.Add(-l.downWindow)
		for _, r := range l.memory.recommendations {
			if !r.at.Before(cutoff) {
				n = max(n, r.replicas)
			}
		}
		return n, "ScaleDownStabilized", higher
	}
	up, upCutoff := recommended, l.now.Add(-window(l.behavior.ScaleUp, 0))
	down, downCutoff := recommended, l.now.Add(-window(l.behavior.ScaleDown, l.downWindow))
	for _, r := range l.memory.recommendations {
		if r.at.After(upCutoff) {
			up = min(up, r.replicas)
		}
		if r.at.After(downCutoff) {
			down = max(down, r.replicas)
		}
	}
	n = min(max(current, up), down)
	if recommended >= current {
		return n, "ScaleUpStabilized", lower
	}
	return n, "ScaleDownStabilized", higher
}

// window returns the stabilization window of rules.
func window(rules *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Duration {
	if rules.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return time.Duration(*rules.StabilizationWindowSeconds) * time.Second
}

// rate returns to how many replicas a target may be scaled now, with the reason.
func (l *limits) rate(current, desired int32) (n int32, reason, message string) {
	most, least := l.max, l.min
	tooMany, tooManyMessage := "TooManyReplicas", "the desired replica count is more than the maximum replica count"
	tooFew, tooFewMessage := "TooFewReplicas", "the desired replica count is less than the minimum replica count"
	up := replicasOf(max(upFactor*float64(current), upLeast))
	if l.behavior != nil {
		up = l.memory.most(current, l.behavior.ScaleUp, l.now)
		if down := l.memory.least(current, l.behavior.ScaleDown, l.now); least < down {
			least, tooFew, tooFewMessage = down, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"
		}
	}
	if most > up {
		most, tooMany, tooManyMessage = up, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
	}
	switch {
	case desired < least && (l.behavior == nil || desired < current):
		return least, tooFew, tooFewMessage
	case desired > most && (l.behavior == nil || desired > current):
		return most, tooMany, tooManyMessage
	}
	return desired, "DesiredWithinRange", "the desired count is within the acceptable range"
}
