package endpoint

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/histogram"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/version"
)

// metrics are the metrics of a Handler, in a registry of its own, with the names of kube-apiserver.
type metrics struct {
	handler    http.Handler
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	sli        *prometheus.HistogramVec
	sizes      *prometheus.HistogramVec
	retired    *prometheus.GaugeVec
	watches    *prometheus.GaugeVec
	events     *prometheus.CounterVec
	eventSizes *prometheus.HistogramVec
	access     *accessMetrics

	known sync.Map // series -> *sample: caches lookups of label values
}

// series identifies a time series of requests.
type series struct {
	verb, group, version, resource, subresource, scope string
	dryRun                                             bool
	code                                               int
}

type sample struct {
	count    prometheus.Counter
	duration prometheus.Observer
	sli      prometheus.Observer // nil for a dry run
	size     prometheus.Observer // nil if it is no read
}

// latencies are the bounds of buckets for the time of a request, in seconds.
var latencies = []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

func newMetrics(running version.Info, limiter *fairness.Limiter, others []prometheus.Collector) *metrics {
	target := []string{"group", "version", "resource", "subresource", "scope", "component"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
		}, append([]string{"verb", "dry_run", "code"}, target...)),
		duration: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_request_duration_seconds",
			"Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			append([]float64{0.001, 0.005, 0.025}, latencies...),
		), append([]string{"verb", "dry_run"}, target...)),
		sli: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_request_sli_duration_seconds",
			"Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
			latencies,
		), append([]string{"verb"}, target...)),
		sizes: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_response_sizes",
			"Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
			prometheus.ExponentialBuckets(1000, 10, 7),
		), append([]string{"verb"}, target...)),
		retired: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_requested_deprecated_apis",
			Help: "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
		}, []string{"group", "version", "resource", "subresource", "removed_release"}),
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.",
		}, append([]string{"verb"}, target...)),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total",
			Help: "Number of events sent in watch clients.",
		}, []string{"group", "version", "resource"}),
		eventSizes: prometheus.NewHistogramVec(histogram.Options(
			"apiserver_watch_events_sizes",
			"Watch event size distribution in bytes",
			prometheus.ExponentialBuckets(1024, 2, 8),
		), []string{"group", "version", "resource"}),
		access: newAccessMetrics(),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.duration, m.sli, m.sizes, m.retired, m.watches, m.events, m.eventSizes, limiter, buildInfo(running),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		inFlight("readOnly", func() float64 { reading, _ := limiter.InFlight(); return float64(reading) }),
		inFlight("mutating", func() float64 { _, writing := limiter.InFlight(); return float64(writing) }))
	registry.MustRegister(m.access.all()...)
	registry.MustRegister(others...)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// buildInfo is the version of the server, as labels.
func buildInfo(v version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
		ConstLabels: prometheus.Labels{"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "git_tree_state": v.GitTreeState,
			"build_date": v.BuildDate, "go_version": v.GoVersion, "compiler": v.Compiler, "platform": v.Platform},
	}, func() float64 { return 1 })
}

func inFlight(kind string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "apiserver_current_inflight_requests",
		Help:        "Number of currently used inflight request limit of this apiserver per request kind.",
		ConstLabels: prometheus.Labels{"request_kind": kind},
	}, value)
}

// series returns the time series of the call. Unknown paths share one, so that clients cannot
// create new ones.
func (c *call) series(code int) series {
	s := series{verb: c.r.Method, code: code}
	switch c.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		s.verb = "other"
	}
	if c.version == nil {
		switch c.info.Path {
		case "/", "/api", "/apis", "/version", "/metrics", "/healthz", "/livez", "/readyz", statusPage, flagsPage, "/openapi/v2", "/openapi/v3":
			s.subresource = c.info.Path
		}
		return s
	}
	s.group, s.version, s.resource = c.info.Group, c.info.Version, c.info.Resource
	if c.scaling() || c.version.Subresource(c.info.Subresource) != nil {
		s.subresource = c.info.Subresource
	}
	if c.version.Connection(c.info.Subresource) != nil {
		s.subresource = c.info.Subresource
	}
	s.dryRun = c.dryRun
	switch c.info.Verb {
	case "list", "watch", "deletecollection":
		s.verb = strings.ToUpper(c.info.Verb)
	case "patch":
		if strings.HasPrefix(c.r.Header.Get("Content-Type"), "application/apply-patch") {
			s.verb = "APPLY"
		}
	}
	if s.subresource != "" && c.version.Connection(s.subresource) != nil {
		s.verb = "CONNECT"
	}
	switch {
	case c.info.NameInPath || c.info.Verb == "create":
		s.scope = "resource"
	case c.info.Namespace != "":
		s.scope = "namespace"
	default:
		s.scope = "cluster"
	}
	return s
}

// count ends the measurement of a call.
func (c *call) count(code int) {
	c.endSpan(code)
	if c.info.Path == "" {
		return // rejected before it was parsed
	}
	m, key := c.h.metrics, c.series(code)
	known, ok := m.known.Load(key)
	if !ok {
		known, _ = m.known.LoadOrStore(key, m.sample(key))
	}
	s := known.(*sample)
	s.count.Inc()
	if c.info.longRunning() {
		return
	}
	took := time.Since(c.begun)
	s.duration.Observe(took.Seconds())
	if s.sli != nil {
		s.sli.Observe((took - c.queued - c.hooked).Seconds())
	}
	if s.size != nil {
		s.size.Observe(float64(c.w.sent))
	}
}

const component = "apiserver"

func (m *metrics) sample(s series) *sample {
	dryRun := ""
	if s.dryRun {
		dryRun = "All"
	}
	target := []string{s.verb, s.group, s.version, s.resource, s.subresource, s.scope, component}
	known := &sample{
		count: m.requests.WithLabelValues(s.verb, dryRun, strconv.Itoa(s.code),
			s.group, s.version, s.resource, s.subresource, s.scope, component),
		duration: m.duration.WithLabelValues(s.verb, dryRun,
			s.group, s.version, s.resource, s.subresource, s.scope, component),
	}
	if !s.dryRun {
		known.sli = m.sli.WithLabelValues(target...)
	}
	if s.verb == "GET" || s.verb == "LIST" {
		known.size = m.sizes.WithLabelValues(target...)
	}
	return known
}

// watching counts a watch or a connection until leave is called.
func (m *metrics) watching(c *call) (leave func()) {
	s := c.series(0)
	gauge := m.watches.WithLabelValues(s.verb, s.group, s.version, s.resource, s.subresource, s.scope, component)
	gauge.Inc()
	return gauge.Dec
}
