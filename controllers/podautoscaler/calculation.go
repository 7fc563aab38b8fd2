package podautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
)

// A calculation proposes a number of replicas for a metric. Its fields are shared by all metrics of
// an autoscaler, and are not changed.
type calculation struct {
	pods                      []*corev1.Pod // of the target
	spec, status              int32         // the replicas of the target: those wanted, and those that exist
	tolerance                 tolerance
	initialization, readiness time.Duration // see Options
	now                       time.Time
}

// A proposal is the outcome of a calculation.
type proposal struct {
	replicas    int32
	usage       int64 // the current value to show, in thousandths
	utilization int32 // usage in percent of the request, for a target of that form
}

// tolerance is the deviation of a ratio from 1 that changes nothing.
type tolerance struct{ down, up float64 }

func (t tolerance) allows(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

var (
	errNoPods    = errors.New("no pods returned by selector while calculating replica count")
	errNoSamples = errors.New("did not receive metrics for targeted pods (pods might be unready)")
	errUnmatched = errors.New("no metrics returned matched known pods")
)

// A load compares samples with a target.
type load interface {
	// measure returns the ratio of samples to the target, and what the samples are on average. There
	// is at least one sample.
	measure(s samples) (ratio float64, current proposal, err error)
	// full returns the value of a pod without a sample, where a low value would remove pods.
	full(pod string) int64
}

// utilization compares with a percentage of the requests of pods.
type utilization struct {
	requests map[string]int64
	target   int32
}

func (u utilization) measure(s samples) (float64, proposal, error) {
	var used, requested, n int64
	for name, one := range s {
		if request, known := u.requests[name]; known {
			used, requested, n = add(used, one.value), add(requested, request), n+1
		}
	}
	if requested == 0 {
		return 0, proposal{}, errUnmatched
	}
	percent := percentage(used, requested)
	return float64(percent) / float64(u.target), proposal{utilization: percent, usage: used / n}, nil
}

// full is the whole request, or the target where that is more.
func (u utilization) full(pod string) int64 { return u.requests[pod] * int64(max(100, u.target)) / 100 }

// percentage returns a part of a whole, rounded down.
func percentage(part, whole int64) int32 {
	p := float64(part) / float64(whole) * 100
	if part < math.MaxInt64/100 && part > math.MinInt64/100 {
		p = float64(part * 100 / whole)
	}
	return int32(min(max(p, math.MinInt32), math.MaxInt32))
}

// average compares with a value for each pod, in thousandths.
type average struct{ target int64 }

func (a average) measure(s samples) (float64, proposal, error) {
	usage := s.total() / int64(len(s))
	return float64(usage) / float64(a.target), proposal{usage: usage}, nil
}

func (a average) full(string) int64 { return a.target }

// byUtilization proposes replicas so that pods use a percentage of what they request: all of a pod,
// or one container.
func (c *calculation) byUtilization(s samples, of corev1.ResourceName, container string, target int32) (proposal, error) {
	return c.byPods(s, of, func() (load, error) {
		requests, err := requests(c.pods, container, of)
		return utilization{requests, target}, err
	})
}

// byAverage proposes replicas so that pods have a value on average. of is empty for a metric that
// is not a resource.
func (c *calculation) byAverage(s samples, of corev1.ResourceName, target int64) (proposal, error) {
	return c.byPods(s, of, func() (load, error) { return average{target}, nil })
}

// byPods proposes replicas for a load that pods share. Pods without a sample never reverse the
// direction of scaling: they are counted so that they make the change smaller. It changes the
// samples.
func (c *calculation) byPods(s samples, of corev1.ResourceName, load func() (load, error)) (proposal, error) {
	if len(c.pods) == 0 {
		return proposal{}, errNoPods
	}
	g := c.group(s, of)
	for name := range g.discarded {
		delete(s, name)
	}
	for name := range g.unready {
		delete(s, name)
	}
	if len(s) == 0 {
		return proposal{}, errNoSamples
	}
	l, err := load()
	if err != nil {
		return proposal{}, err
	}
	ratio, current, err := l.measure(s)
	if err != nil {
		return proposal{}, err
	}
	current.replicas = c.spec
	addUnready := ratio > 1 && len(g.unready) > 0
	if !addUnready && len(g.missing) == 0 {
		if !c.tolerance.allows(ratio) {
			current.replicas = replicasOf(ratio * float64(g.ready))
		}
		return current, nil
	}
	for name := range g.missing {
		switch {
		case ratio < 1:
			s[name] = sample{value: l.full(name)}
		case ratio > 1:
			s[name] = sample{}
		}
	}
	if addUnready {
		for name := range g.unready {
			s[name] = sample{}
		}
	}
	careful, _, err := l.measure(s)
	if err != nil {
		return proposal{}, err
	}
	turned := ratio < 1 && careful > 1 || ratio > 1 && careful < 1
	if c.tolerance.allows(careful) || turned {
		return current, nil
	}
	n := replicasOf(careful * float64(len(s)))
	if careful < 1 && n > c.spec || careful > 1 && n < c.spec {
		return current, nil // the number of pods with samples would turn it around
	}
	current.replicas = n
	return current, nil
}

// byTotal proposes replicas so that a value which all pods share is that of the target. A target
// without replicas gets as many as the value is times the target.
func (c *calculation) byTotal(usage, target int64) (proposal, error) {
	p := proposal{replicas: c.spec, usage: usage}
	ratio := float64(usage) / float64(target)
	switch {
	case c.spec == 0:
		p.replicas = replicasOf(ratio)
	case !c.tolerance.allows(ratio):
		if len(c.pods) == 0 {
			return proposal{}, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
		}
		ready := 0
		for _, one := range c.pods {
			if one.Status.Phase == corev1.PodRunning && pod.Ready(one) {
				ready++
			}
		}
		p.replicas = replicasOf(ratio * float64(ready))
	}
	return p, nil
}

// perPod proposes replicas so that each has its part of a value. Without pods, the value is shown
// as it is.
func (c *calculation) perPod(usage, target int64) proposal {
	p := proposal{replicas: c.status, usage: usage}
	if ratio := float64(usage) / (float64(target) * float64(c.status)); !c.tolerance.allows(ratio) {
		p.replicas = replicasOf(float64(usage) / float64(target))
	}
	if c.status > 0 && float64(usage) < math.MaxInt64 {
		p.usage = int64(math.Ceil(float64(usage) / float64(c.status)))
	}
	return p
}

// readiness returns the condition Ready of a pod, or nil.
func readiness(p *corev1.Pod) *corev1.PodCondition { return pod.Condition(p, corev1.PodReady) }
