package podgc

import (
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label reason of the metrics, by task.
var reasons = map[task]string{orphans: "orphaned", terminating: "out-of-service", unscheduled: "unscheduled", ended: "terminated"}

// metrics count the pods that are deleted, by namespace and reason.
type metrics struct{ deleted, failed *prometheus.CounterVec }

func newMetrics(r manager.Registry) (m metrics, err error) {
	labels := []string{"namespace", "reason"}
	m.deleted, err = manager.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pod_gc_collector_force_delete_pods_total", Help: "Pods to be force-deleted.",
	}, labels))
	if err != nil {
		return m, err
	}
	m.failed, err = manager.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pod_gc_collector_force_delete_pod_errors_total", Help: "Pods whose forced deletion failed.",
	}, labels))
	return m, err
}
