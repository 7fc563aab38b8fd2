package webhook

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the metrics of webhooks under the names of the ecosystem:
// controller_runtime_webhook_requests_total (labels webhook, the path, and code, the HTTP status),
// _latency_seconds and _requests_in_flight (label webhook), and _panics_total. The caller registers
// Metrics, which is a prometheus.Collector. NewMetrics returns one.
type Metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	panics   prometheus.Counter
}

// NewMetrics returns Metrics without a webhook.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total",
			Help: "Number of requests to webhooks, by path and HTTP status code.",
		}, []string{"webhook", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "controller_runtime_webhook_latency_seconds",
			Help:                            "Time until webhooks respond, by path.",
			Buckets:                         prometheus.ExponentialBuckets(1e-8, 10, 12),
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"webhook"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight",
			Help: "Requests in flight to webhooks, by path.",
		}, []string{"webhook"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_panics_total",
			Help: "Number of panics in webhooks.",
		}),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.latency, m.inFlight, m.panics}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// Instrument returns a handler that measures the one served at a path.
func (m *Metrics) Instrument(path string, hook http.Handler) http.Handler {
	label := prometheus.Labels{"webhook": path}
	requests := m.requests.MustCurryWith(label)
	requests.WithLabelValues("200") // so that the series exist from the start
	requests.WithLabelValues("500")
	return promhttp.InstrumentHandlerDuration(m.latency.MustCurryWith(label),
		promhttp.InstrumentHandlerCounter(requests,
			promhttp.InstrumentHandlerInFlight(m.inFlight.With(label),
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					hook.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), metricsKey{}, m)))
				}))))
}

type metricsKey struct{}

// metricsFrom returns the metrics of the handler that serves the request of a context, or nil.
func metricsFrom(ctx context.Context) *Metrics {
	m, _ := ctx.Value(metricsKey{}).(*Metrics)
	return m
}

func (m *Metrics) panicked() {
	if m != nil {
		m.panics.Inc()
	}
}
