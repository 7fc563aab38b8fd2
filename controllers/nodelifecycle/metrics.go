package nodelifecycle

import (
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have the names of kube-controller-manager. Its durations of looks at nodes are missing:
// this controller has no such looks, and the time of a request is in
// controller_runtime_reconcile_time_seconds.
type metrics struct {
	size, unready, health *prometheus.GaugeVec   // by zone
	evictions             *prometheus.CounterVec // likewise
}

func newMetrics(r manager.Registry) (m metrics, err error) {
	gauge := func(name, help string) (g *prometheus.GaugeVec) {
		if err == nil {
			g, err = manager.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "node_collector_" + name, Help: help}, []string{"zone"}))
		}
		return g
	}
	m.size = gauge("zone_size", "Nodes of a zone.")
	m.unready = gauge("unhealthy_nodes_in_zone", "Nodes of a zone that are not ready.")
	m.health = gauge("zone_health", "Percentage of the nodes of a zone that are ready.")
	if err != nil {
		return m, err
	}
	m.evictions, err = manager.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_collector_evictions_total", Help: "Nodes that got a taint NoExecute.",
	}, []string{"zone"}))
	return m, err
}

// zone shows the counts of a zone. One without nodes is healthy.
func (m metrics) zone(name string, ready, unready int) {
	size, health := ready+unready, 100.0
	if size > 0 {
		health = 100 * float64(ready) / float64(size)
	}
	m.size.WithLabelValues(name).Set(float64(size))
	m.unready.WithLabelValues(name).Set(float64(unready))
	m.health.WithLabelValues(name).Set(health)
	m.evictions.WithLabelValues(name).Add(0)
}
