package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager/metricsserver"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// A Manager runs controllers and their dependencies: New returns one. Functions that need only a
// part of it take one of the interfaces that it consists of. Its methods are safe for concurrent
// use, and the results of its getters belong to the manager.
type Manager interface {
	Runner
	Clients
	Kinds
	Recorders
	HealthChecks
	Telemetry

	// GetWebhookServer returns Options.WebhookServer, or nil. The manager then runs it.
	GetWebhookServer() WebhookServer
	// GetControllerOptions returns the defaults for controllers.
	GetControllerOptions() ControllerOptions
}

// A Runner runs Runnables.
type Runner interface {
	// Add adds a Runnable, which starts with its group: at once if the group runs already. It
	// returns an error after the manager has stopped, and for a second controller with the same
	// name.
	Add(Runnable) error
	// Elected returns a channel that is closed when the Runnables of the leader have started: after
	// the election is won, or without leader election when the manager is ready.
	Elected() <-chan struct{}
	// Start runs everything until ctx ends, and returns after everything has stopped: nil, or the
	// first error. It can be called once.
	Start(ctx context.Context) error
}

// Clients are the connections to an API server. They share one HTTP client.
type Clients interface {
	// GetClient returns the client. It writes to the server and reads from the cache, which
	// includes what the client itself has written.
	GetClient() client.Client
	// GetAPIReader returns a reader that bypasses the cache.
	GetAPIReader() client.Reader
	// GetCache returns the cache that GetClient reads from.
	GetCache() cache.Cache
	// GetFieldIndexer returns the cache as a client.FieldIndexer.
	GetFieldIndexer() client.FieldIndexer
	// GetConfig returns the configuration of the clients, with metrics and traces added. It must
	// not be changed. Its QPS is -1 (no limit) if neither QPS nor RateLimiter was set.
	GetConfig() *rest.Config
	// GetHTTPClient returns the HTTP client of GetConfig.
	GetHTTPClient() *http.Client
}

// Kinds map Go types, kinds and resources to each other.
type Kinds interface {
	// GetScheme returns Options.Scheme, or its default.
	GetScheme() *runtime.Scheme
	// GetRESTMapper returns the mapper that the clients use.
	GetRESTMapper() meta.RESTMapper
}

// Recorders record events for objects.
type Recorders interface {
	// GetEventRecorder returns a recorder of events (events.k8s.io). name is the reporting
	// controller.
	GetEventRecorder(name string) EventRecorder
	// GetEventRecorderFor returns a recorder of events of the core API. name is their source.
	GetEventRecorderFor(name string) record.EventRecorder
}

// HealthChecks are served at Options.HealthProbeBindAddress. Checks can be added at any time. Both
// methods replace a check with the same name, and return an error for a nil check and for a name
// that is empty or contains a slash.
type HealthChecks interface {
	// AddHealthzCheck adds a check to liveness.
	AddHealthzCheck(name string, check Checker) error
	// AddReadyzCheck adds a check to readiness.
	AddReadyzCheck(name string, check Checker) error
}

// Telemetry provides the logger, the metrics and the traces of a program.
type Telemetry interface {
	// GetLogger returns Options.Logger, or its default.
	GetLogger() logr.Logger
	// GetMetricsRegistry returns the registry whose metrics are served at /metrics. Programs
	// register their own metrics with it.
	GetMetricsRegistry() Registry
	// AddMetricsServerExtraHandler serves a handler at another path of the metrics server, behind
	// the same filter. It does nothing if metrics are not served.
	AddMetricsServerExtraHandler(path string, h http.Handler) error
	// GetTracerProvider returns Options.TracerProvider, which may be nil.
	GetTracerProvider() trace.TracerProvider
}

// A WebhookServer serves webhooks. webhook.NewServer returns one.
type WebhookServer interface {
	LeaderElectionRunnable
	// Register serves a handler at a path.
	Register(path string, hook http.Handler)
	// StartedChecker returns a Checker that succeeds as soon as the server can be reached.
	StartedChecker() func(*http.Request) error
	// WebhookMux returns the mux of the registered handlers.
	WebhookMux() *http.ServeMux
}

// hasCache is implemented by Runnables with a cache of their own, such as a cluster.Cluster.
type hasCache interface{ GetCache() cache.Cache }

// A controllerName is a Runnable with a unique name, such as a controller.
type controllerName interface{ ControllerName() string }

type manager struct {
	opts       Options
	logger     logr.Logger
	cfg        *rest.Config
	httpClient *http.Client
	mapper     meta.RESTMapper
	cache      cache.Cache
	client     client.Client
	apiReader  client.Reader
	metrics    metrics
	events     *broadcaster
	election   *election // nil without leader election

	live, ready   checks
	metricsServer metricsserver.Server // nil if metrics are not served

	// In the order in which they start.
	servers, webhooks, caches, others, warmups, leaders group

	elected chan struct{}
	failed  failure

	mu          sync.Mutex
	started     bool
	controllers map[string]bool // by name
	hooked      bool            // the webhook server has been added
}

// New returns a manager. It sends no request and starts no goroutine before Start. cfg is copied.
// New returns an error if cfg is nil, if opts contradict each other, or if a client or a server
// cannot be created.
func New(cfg *rest.Config, opts Options) (Manager, error) {
	if cfg == nil {
		return nil, errors.New("manager: the rest.Config is nil")
	}
	if err := opts.complete(); err != nil {
		return nil, err
	}
	m := &manager{opts: opts, logger: opts.Logger, elected: make(chan struct{}), controllers: map[string]bool{}}
	m.live.logger, m.ready.logger = opts.Logger.WithName("healthz"), opts.Logger.WithName("readyz")
	m.initGroups()
	for _, init := range []func() error{func() error { return m.initConfig(cfg) }, m.initReads, m.initElection, m.initServers} {
		if err := init(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// NewManager is New, under the name that controller-runtime's root package uses.
func NewManager(cfg *rest.Config, opts Options) (Manager, error) { return New(cfg, opts) }

func (m *manager) initGroups() {
	for g, name := range map[*group]string{&m.servers: "servers", &m.webhooks: "webhooks", &m.caches: "caches",
		&m.others: "runnables that need no leader election", &m.warmups: "warmups", &m.leaders: "runnables of the leader"} {
		g.name, g.fail = name, m.fail
	}
}

// initConfig creates the one HTTP client that all parts share, with metrics and traces.
func (m *manager) initConfig(cfg *rest.Config) (err error) {
	if m.metrics, err = newMetrics(m.opts.Metrics.Registry); err != nil {
		return err
	}
	m.cfg = m.instrument(cfg)
	if m.httpClient, err = rest.HTTPClientFor(m.cfg); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	m.events, err = newBroadcaster(m.cfg, m.httpClient, m.logger.WithName("events"))
	return err
}

func (m *manager) instrument(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1 // client-go's default of 5 a second would delay lease renewals behind events
	}
	cfg.Wrap(m.metrics.counted)
	if p := m.opts.TracerProvider; p != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return traced(p, next) })
	}
	return cfg
}

// initReads creates the mapper, the cache and the clients.
func (m *manager) initReads() (err error) {
	if m.mapper, err = m.opts.MapperProvider(m.cfg, m.httpClient); err != nil {
		return fmt.Errorf("manager: mapper: %w", err)
	}
	c := m.opts.Cache
	setDefault(&c.HTTPClient, m.httpClient)
	setDefault(&c.Scheme, m.opts.Scheme)
	if c.Mapper == nil {
		c.Mapper = m.mapper
	}
	setDefault(&c.Logger, slog.New(logr.ToSlogHandler(m.logger.WithName("cache"))))
	if m.cache, err = m.opts.NewCache(m.cfg, c); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	direct := m.opts.Client
	setDefault(&direct.HTTPClient, m.httpClient)
	setDefault(&direct.Scheme, m.opts.Scheme)
	if direct.Mapper == nil {
		direct.Mapper = m.mapper
	}
	cached := direct
	direct.Cache = nil
	if m.apiReader, err = client.New(m.cfg, direct); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	var reads client.CacheOptions
	if cached.Cache != nil {
		reads = *cached.Cache
	}
	if reads.Reader == nil {
		reads.Reader = m.cache
	}
	if reads.Metrics == nil {
		reads.Metrics = m.opts.Metrics.Registry
	}
	cached.Cache = &reads
	if m.client, err = m.opts.NewClient(m.cfg, cached); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	return m.caches.add(m.cache)
}

func setDefault[T any](p **T, otherwise *T) {
	if *p == nil {
		*p = otherwise
	}
}

func (m *manager) initElection() (err error) {
	if !m.opts.LeaderElection {
		return nil
	}
	lock := m.opts.LeaderElectionResourceLockInterface
	if lock == nil {
		cfg, hc := m.cfg, m.httpClient
		if c := m.opts.LeaderElectionConfig; c != nil {
			cfg = m.instrument(c)
			if hc, err = rest.HTTPClientFor(cfg); err != nil {
				return fmt.Errorf("leader election: %w", err)
			}
		}
		if lock, err = newLock(cfg, hc, &m.opts, m.GetEventRecorderFor("leader-election")); err != nil {
			return err
		}
	}
	m.setLeader(0)
	m.election, err = newElection(lock, &m.opts)
	return err
}

func (m *manager) initServers() (err error) {
	if hooks, ok := m.opts.WebhookServer.(prometheus.Collector); ok {
		registered, err := Register(m.opts.Metrics.Registry, hooks)
		if err != nil {
			return err
		}
		if registered != hooks {
			return errors.New("manager: Options.Metrics.Registry has the metrics of another webhook server: give each manager a registry of its own")
		}
	}
	if m.metricsServer, err = metricsserver.NewServer(m.opts.Metrics, m.cfg, m.httpClient); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	if m.metricsServer != nil {
		if err := m.servers.add(m.metricsServer); err != nil {
			return err
		}
	}
	o := &m.opts
	for _, s := range []*server{
		{name: "health", address: o.HealthProbeBindAddress, handler: healthHandler(o.LivenessEndpointName, &m.live, o.ReadinessEndpointName, &m.ready)},
		{name: "pprof", address: o.PprofBindAddress, handler: pprofHandler()},
	} {
		s.logger = m.logger
		if isAddress(s.address) {
			if err := m.servers.add(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *manager) Add(r Runnable) error {
	if r == nil {
		return errors.New("manager: the Runnable is nil")
	}
	if n, ok := r.(controllerName); ok {
		if err := m.addName(n.ControllerName()); err != nil {
			return err
		}
	}
	if w, ok := r.(WarmupRunnable); ok {
		if err := m.warmups.add(RunnableFunc(w.Warmup)); err != nil {
			return err
		}
	}
	return m.groupOf(r).add(r)
}

// addName returns an error if name is taken by another controller, which would share its metrics.
// "" is never taken.
func (m *manager) addName(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "" && m.controllers[name] {
		return fmt.Errorf("manager: controller name %q is already in use: controllers need unique names for metrics and logs", name)
	}
	m.controllers[name] = true
	return nil
}

func (m *manager) groupOf(r Runnable) *group {
	switch r := r.(type) {
	case cache.Cache, hasCache:
		return &m.caches
	case WebhookServer:
		return &m.webhooks
	case LeaderElectionRunnable:
		if !r.NeedLeaderElection() {
			return &m.others
		}
	}
	return &m.leaders
}

func (m *manager) GetWebhookServer() WebhookServer {
	s := m.opts.WebhookServer
	m.mu.Lock()
	defer m.mu.Unlock()
	if s != nil && !m.hooked {
		m.hooked = true
		if err := m.webhooks.add(s); err != nil {
			m.logger.Error(err, "The webhook server does not run")
		}
	}
	return s
}

func (m *manager) AddHealthzCheck(name string, check Checker) error { return m.live.add(name, check) }
func (m *manager) AddReadyzCheck(name string, check Checker) error  { return m.ready.add(name, check) }

func (m *manager) AddMetricsServerExtraHandler(path string, h http.Handler) error {
	if m.metricsServer == nil {
		return nil
	}
	if err := m.metricsServer.AddExtraHandler(path, h); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	return nil
}

func (m *manager) GetEventRecorder(name string) EventRecorder {
	return m.events.newV1Recorder(m.opts.Scheme, name)
}

func (m *manager) GetEventRecorderFor(name string) record.EventRecorder {
	if b := m.opts.EventBroadcaster; b != nil {
		return b.NewRecorder(m.opts.Scheme, corev1.EventSource{Component: name})
	}
	return coreRecorder{m.events, m.opts.Scheme, name}
}

func (m *manager) Elected() <-chan struct{}                { return m.elected }
func (m *manager) GetClient() client.Client                { return m.client }
func (m *manager) GetAPIReader() client.Reader             { return m.apiReader }
func (m *manager) GetCache() cache.Cache                   { return m.cache }
func (m *manager) GetFieldIndexer() client.FieldIndexer    { return m.cache }
func (m *manager) GetScheme() *runtime.Scheme              { return m.opts.Scheme }
func (m *manager) GetRESTMapper() meta.RESTMapper          { return m.mapper }
func (m *manager) GetConfig() *rest.Config                 { return m.cfg }
func (m *manager) GetHTTPClient() *http.Client             { return m.httpClient }
func (m *manager) GetMetricsRegistry() Registry            { return m.opts.Metrics.Registry }
func (m *manager) GetTracerProvider() trace.TracerProvider { return m.opts.TracerProvider }
func (m *manager) GetLogger() logr.Logger                  { return m.logger }
func (m *manager) GetControllerOptions() ControllerOptions { return m.opts.Controller }
