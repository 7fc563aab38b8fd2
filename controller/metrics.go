package controller

import (
	"time"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label result.
const (
	resultSuccess      = "success"
	resultError        = "error"
	resultRequeue      = "requeue"
	resultRequeueAfter = "requeue_after"
)

// metrics are the metrics of one controller.
type metrics struct {
	results                              map[string]prometheus.Counter
	errors, terminal, panicked, timeouts prometheus.Counter
	limit, active                        prometheus.Gauge
	seconds                              prometheus.Observer

	queues *workqueue.Metrics // of all controllers
}

// newMetrics registers the metrics of controllers unless they are registered, and returns those of
// one controller. r may be nil.
func newMetrics(r prometheus.Registerer, name string) (*metrics, error) {
	if r == nil {
		r = prometheus.NewRegistry() // that is not served
	}
	var firstErr error
	m := &metrics{results: map[string]prometheus.Counter{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(r, &firstErr, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"controller"}, labels...)))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return register(r, &firstErr, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"controller"}))
	}
	total := counter("controller_runtime_reconcile_total", "Reconciles, by result.", "result")
	failed := counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.")
	terminal := counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed and are not retried.")
	panicked := counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.")
	timeouts := counter("controller_runtime_reconcile_timeouts_total", "Reconciles that exceeded their timeout.")
	limit := gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of objects that are reconciled concurrently.")
	active := gauge("controller_runtime_active_workers", "Objects that are being reconciled.")
	seconds := register(r, &firstErr, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "controller_runtime_reconcile_time_seconds", Help: "Time of a reconcile.",
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
			1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"controller"}))
	m.queues = register(r, &firstErr, workqueue.NewMetrics())
	if firstErr != nil {
		return nil, firstErr
	}
	for _, result := range []string{resultSuccess, resultError, resultRequeue, resultRequeueAfter} {
		m.results[result] = total.WithLabelValues(name, result)
	}
	m.errors, m.terminal = failed.WithLabelValues(name), terminal.WithLabelValues(name)
	m.panicked, m.timeouts = panicked.WithLabelValues(name), timeouts.WithLabelValues(name)
	m.limit, m.active = limit.WithLabelValues(name), active.WithLabelValues(name)
	m.seconds = seconds.WithLabelValues(name)
	return m, nil
}

func register[C prometheus.Collector](r prometheus.Registerer, firstErr *error, c C) C {
	c, err := manager.Register(r, c)
	if err != nil && *firstErr == nil {
		*firstErr = err
	}
	return c
}
