package podautoscaler

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A sample is the value of a metrics API for one pod, in thousandths.
type sample struct {
	value  int64
	at     time.Time
	window time.Duration // in which it was measured, before at
}

// samples are by the names of pods. They may include pods that are not of the target.
type samples map[string]sample

// total returns the sum of all values, which ends at the largest number.
func (s samples) total() (sum int64) {
	for _, one := range s {
		sum = add(sum, one.value)
	}
	return sum
}

// add returns a sum that does not overflow.
func add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// replicasOf rounds a number of replicas up, to one that exists.
func replicasOf(f float64) int32 {
	switch f = math.Ceil(f); {
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f > math.MinInt32:
		return int32(f)
	}
	return 0 // not a number
}

// A grouping is which pods count in a calculation.
type grouping struct {
	ready     int             // number of pods that have a sample which counts
	unready   map[string]bool // pods that do not do their work yet: their samples do not count
	missing   map[string]bool // pods without a sample
	discarded map[string]bool // pods that are going, or have failed: they do not count at all
}

// group tells which pods count. Readiness matters only for CPU: a pod that starts uses more of it
// than one that works.
func (c *calculation) group(s samples, resource corev1.ResourceName) grouping {
	g := grouping{unready: map[string]bool{}, missing: map[string]bool{}, discarded: map[string]bool{}}
	for _, p := range c.pods {
		one, found := s[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			g.discarded[p.Name] = true
		case p.Status.Phase == corev1.PodPending:
			g.unready[p.Name] = true
		case !found:
			g.missing[p.Name] = true
		case resource == corev1.ResourceCPU && c.starts(p, one):
			g.unready[p.Name] = true
		default:
			g.ready++
		}
	}
	return g
}

// starts reports whether a sample of CPU shows the start of a pod rather than its work.
func (c *calculation) starts(p *corev1.Pod, one sample) bool {
	ready := readiness(p)
	if ready == nil || p.Status.StartTime == nil {
		return true
	}
	unready, since := ready.Status == corev1.ConditionFalse, ready.LastTransitionTime.Time
	started := p.Status.StartTime.Time
	if started.Add(c.initialization).After(c.now) {
		// Part of the window may be before the pod became ready.
		return unready || one.at.Before(since.Add(one.window))
	}
	// A pod that was ready once, and is not now, still works: it may be overloaded.
	return unready && started.Add(c.readiness).After(since)
}
