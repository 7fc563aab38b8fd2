package manager

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kapok-dev/kapok/manager/metricsserver"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// A Registry holds the metrics of a manager. *prometheus.Registry implements it.
type Registry = metricsserver.Registry

// MetricsOptions configure the metrics of a manager and the server for them: see package
// metricsserver.
type MetricsOptions = metricsserver.Options

// Register registers a collector. If an equal one is registered, it returns that instead.
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

// metrics are the metrics of the manager itself.
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

// counted returns a RoundTripper that counts the requests that it passes to next.
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

// WrappedRoundTripper returns the wrapped RoundTripper. client-go uses it to close idle
// connections.
func (c countedRequests) WrappedRoundTripper() http.RoundTripper { return c.next }
