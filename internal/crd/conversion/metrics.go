package conversion

import (
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/histogram"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count and time calls, under kube-apiserver's names.
type Metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	duration *prometheus.HistogramVec // the same, by definition and versions
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns the metrics of one server. The caller registers them.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total",
			Help: "Calls of conversion webhooks, by outcome.",
		}, []string{"result", "failure_type"}),
		latency: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_conversion_webhook_duration_seconds",
			"Duration of calls of conversion webhooks, in seconds.",
			[]float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		), []string{"result", "failure_type"}),
		duration: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_crd_conversion_webhook_duration_seconds",
			"Duration of calls of conversion webhooks in seconds, by definition and versions. A call for several objects counts under the version of the first one.",
			prometheus.ExponentialBuckets(0.001, 2, 15),
		), []string{"crd_name", "from_version", "to_version", "succeeded"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.requests.Describe(to)
	m.latency.Describe(to)
	m.duration.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.requests.Collect(to)
	m.latency.Collect(to)
	m.duration.Collect(to)
}

// A failure is the kind of an error, as metrics label it.
type failure string

const (
	callFailed       failure = "conversion_webhook_call_failure"
	malformedAnswer  failure = "conversion_webhook_malformed_response_failure"
	partialAnswer    failure = "conversion_webhook_partial_response_failure"
	invalidConverted failure = "conversion_webhook_invalid_converted_object_failure"
)

// observe records a call; p is nil if it succeeded.
func (m *Metrics) observe(name, from, to string, took time.Duration, p *problem) {
	result, f := "success", failure("")
	if p != nil {
		result, f = "failure", p.kind
	}
	m.requests.WithLabelValues(result, string(f)).Inc()
	m.latency.WithLabelValues(result, string(f)).Observe(took.Seconds())
	m.duration.WithLabelValues(name, from, to, strconv.FormatBool(p == nil)).Observe(took.Seconds())
}
