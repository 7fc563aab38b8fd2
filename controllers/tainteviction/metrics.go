package tainteviction

import (
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count evictions, and measure how late they are.
type metrics struct {
	deletions prometheus.Counter
	delay     prometheus.Histogram
}

func newMetrics(r manager.Registry) (m metrics, err error) {
	m.deletions, err = manager.Register(r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "taint_eviction_controller_pod_deletions_total", Help: "Pods that were deleted because of taints.",
	}))
	if err != nil {
		return m, err
	}
	m.delay, err = manager.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "taint_eviction_controller_pod_deletion_duration_seconds",
		Help:    "Time from the moment at which a pod was to be deleted to its deletion.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
	}))
	return m, err
}
