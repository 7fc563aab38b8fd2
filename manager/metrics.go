package manager

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Registry is where the metrics of a manager are. A *prometheus.Registry is one.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// MetricsOptions are the settings of the metrics of a manager.
type MetricsOptions struct {
	// BindAddress is where /metrics is served, HOST:PORT, over HTTP. Default, and "0": nowhere.
	BindAddress string
	// ExtraHandlers are served beside /metrics, by their paths.
	ExtraHandlers map[string]http.Handler
	// Registry is where metrics go. Default: a new one, with those of Go and of the process. Several managers may share one,
	// but not webhook servers: the metrics of the second would be nowhere, and New fails.
	Registry Registry
}

// Register registers a collector, or finds the one that has been registered with the same description.
func Register[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	err := r.Register(c)
	if err == nil {
		return c, nil
	}
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := already.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, fmt.Errorf("register metrics: %w", err)
}

func newRegistry() Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // it is empty
	return r
}

// metrics are those of a manager itself.
type metrics struct {
	requests *prometheus.CounterVec
	leader   *prometheus.GaugeVec
}

func newMetrics(r Registry) (m metrics, err error) {
	m.requests, err = Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Requests to the API server, by code, method and host.",
	}, []string{"code", "method", "host"}))
	if err != nil {
		return m, err
	}
	m.leader, err = Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "Whether this process holds the lease of a name: 0 or 1.",
	}, []string{"name"}))
	return m, err
}

// counted counts the requests that next sends.
func (m metrics) counted(next http.RoundTripper) http.RoundTripper { return countedRequests{next, m} }

type countedRequests struct {
	next    http.RoundTripper
	metrics metrics
}

func (c countedRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	c.metrics.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	return response, err
}

// WrappedRoundTripper lets client-go find connections to close.
func (c countedRequests) WrappedRoundTripper() http.RoundTripper { return c.next }

func metricsHandler(r Registry, extra map[string]http.Handler) (*http.ServeMux, error) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	for path, h := range extra {
		if err := handle(mux, path, h); err != nil {
			return nil, err
		}
	}
	return mux, nil
}
