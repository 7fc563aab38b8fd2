package controller

import (
	"sync"
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
	f, err := manager.Register(r, &families{})
	if err != nil {
		return nil, err
	}
	f.once.Do(f.build)
	m := &metrics{results: map[string]prometheus.Counter{}, queues: f.queues}
	for _, result := range []string{resultSuccess, resultError, resultRequeue, resultRequeueAfter} {
		m.results[result] = f.results.WithLabelValues(name, result)
	}
	m.errors, m.terminal = f.errors.WithLabelValues(name), f.terminal.WithLabelValues(name)
	m.panicked, m.timeouts = f.panicked.WithLabelValues(name), f.timeouts.WithLabelValues(name)
	m.limit, m.active = f.limit.WithLabelValues(name), f.active.WithLabelValues(name)
	m.seconds = f.seconds.WithLabelValues(name)
	return m, nil
}

// families are the metrics of all controllers in a registry. A value that has not been built can be
// registered: each controller tries to, and only the first value is built, since building costs
// more than the rest of a controller.
type families struct {
	once                                          sync.Once // calls build
	results, errors, terminal, panicked, timeouts *prometheus.CounterVec
	limit, active                                 *prometheus.GaugeVec
	seconds                                       *prometheus.HistogramVec
	queues                                        *workqueue.Metrics
}

func (f *families) build() {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"controller"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"controller"})
	}
	f.results = counter("controller_runtime_reconcile_total", "Reconciles, by result.", "result")
	f.errors = counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.")
	f.terminal = counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed and are not retried.")
	f.panicked = counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.")
	f.timeouts = counter("controller_runtime_reconcile_timeouts_total", "Reconciles that exceeded their timeout.")
	f.limit = gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of objects that are reconciled concurrently.")
	f.active = gauge("controller_runtime_active_workers", "Objects that are being reconciled.")
	f.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "controller_runtime_reconcile_time_seconds", Help: "Time of a reconcile.",
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
			1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"controller"})
	f.queues = workqueue.NewMetrics()
}

func (f *families) all() []prometheus.Collector {
	return []prometheus.Collector{f.results, f.errors, f.terminal, f.panicked, f.timeouts, f.limit, f.active, f.seconds, f.queues}
}

// descriptions returns the descriptions of all families, which are the same in each registry.
var descriptions = sync.OnceValue(func() (all []*prometheus.Desc) {
	var f families
	f.build()
	for _, c := range f.all() {
		to := make(chan *prometheus.Desc)
		go func() {
			defer close(to)
			c.Describe(to)
		}()
		for d := range to {
			all = append(all, d)
		}
	}
	return all
})

// Describe implements prometheus.Collector.
func (f *families) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions() {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *families) Collect(to chan<- prometheus.Metric) {
	f.once.Do(f.build)
	for _, c := range f.all() {
		c.Collect(to)
	}
}
