package hooks

import (
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/histogram"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count and time calls, under kube-apiserver's names.
type Metrics struct {
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	rejections *prometheus.CounterVec
	ignored    *prometheus.CounterVec
	errors     *prometheus.CounterVec // of conditions
	exclusions *prometheus.CounterVec
	conditions *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Metrics)(nil)

func newMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_admission_" + name, Help: help}, labels)
	}
	timings := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogram.Options("apiserver_admission_"+name, help, buckets), labels)
	}
	return &Metrics{
		requests: counter("webhook_request_total", "Calls of admission webhooks, by outcome.",
			"name", "type", "operation", "code", "rejected"),
		durations: timings("webhook_admission_duration_seconds", "Duration of calls of admission webhooks, in seconds.",
			[]float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25}, "name", "type", "operation", "rejected"),
		rejections: counter("webhook_rejection_count", "Requests that admission webhooks rejected, or that were rejected because a call failed.",
			"name", "type", "operation", "error_type", "rejection_code"),
		ignored: counter("webhook_fail_open_count", "Calls of admission webhooks that failed and were ignored.", "name", "type"),
		errors: counter("match_condition_evaluation_errors_total", "Errors of match conditions.",
			"name", "kind", "type", "operation"),
		exclusions: counter("match_condition_exclusions_total", "Requests that match conditions have excluded.",
			"name", "kind", "type", "operation"),
		conditions: timings("match_condition_evaluation_seconds", "Duration of the evaluation of match conditions, in seconds.",
			[]float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}, "name", "kind", "type", "operation"),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.durations, m.rejections, m.ignored, m.errors, m.exclusions, m.conditions}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

// A kind of webhook has two names in metrics. The second one is for requests that a condition
// excluded.
type kind struct{ calls, exclusions string }

var (
	admits    = kind{"admit", "admit"}
	validates = kind{"validating", "validate"}
)

// Types of errors in metrics.
const (
	noError      = "no_error"
	callFailed   = "calling_webhook_error"
	serverFailed = "apiserver_internal_error"
)

// observe records a call and its outcome.
func (m *Metrics) observe(h *hook, k kind, op resource.Operation, took time.Duration, f *failure) {
	code, rejected := 200, f != nil && !f.isIgnored(h)
	if f != nil {
		code = min(f.code, 600)
	}
	m.requests.WithLabelValues(h.Name, k.calls, string(op), strconv.Itoa(code), strconv.FormatBool(rejected)).Inc()
	m.durations.WithLabelValues(h.Name, k.calls, string(op), strconv.FormatBool(rejected)).Observe(took.Seconds())
	switch {
	case f == nil || f.canceled():
	case rejected:
		m.rejections.WithLabelValues(h.Name, k.calls, string(op), f.kind, strconv.Itoa(code)).Inc()
	default:
		m.ignored.WithLabelValues(h.Name, k.calls).Inc()
	}
}

func (m *Metrics) evaluated(h *hook, k kind, op resource.Operation, took time.Duration) {
	m.conditions.WithLabelValues(h.Name, "webhook", k.calls, string(op)).Observe(took.Seconds())
}

func (m *Metrics) evaluationFailed(h *hook, k kind, op resource.Operation) {
	m.errors.WithLabelValues(h.Name, "webhook", k.calls, string(op)).Inc()
}

func (m *Metrics) excluded(h *hook, k kind, op resource.Operation) {
	m.exclusions.WithLabelValues(h.Name, "webhook", k.exclusions, string(op)).Inc()
}
