package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
)

// A Manager runs controllers and what they need. Its methods are safe for concurrent use.
type Manager interface {
	// Add has a Runnable run: at once if those of its sort run already, else when they start. It fails when the manager has stopped,
	// and for a second controller of a name.
	Add(Runnable) error
	// Elected is closed when the Runnables of the leader have started: after an election that was won, or without one.
	Elected() <-chan struct{}
	// Start runs everything until the context ends, and returns when it has stopped: nil, or what went wrong. It can be called once.
	Start(context.Context) error

	// GetClient returns the client, which writes to the server, and reads from the cache, what it has written itself included.
	GetClient() client.Client
	// GetAPIReader returns a reader that asks the server.
	GetAPIReader() client.Reader
	GetCache() cache.Cache
	GetFieldIndexer() client.FieldIndexer
	GetScheme() *runtime.Scheme
	GetRESTMapper() meta.RESTMapper
	// GetConfig returns the configuration of clients, which must not be changed, with metrics and traces added. If it had neither
	// QPS nor RateLimiter, its QPS is -1: nothing is throttled.
	GetConfig() *rest.Config
	GetHTTPClient() *http.Client

	// GetEventRecorder returns a recorder of events (events.k8s.io), under the name of the controller that reports them.
	GetEventRecorder(name string) EventRecorder
	// GetEventRecorderFor returns a recorder of events of the core API.
	GetEventRecorderFor(name string) record.EventRecorder

	// AddHealthzCheck adds a check to liveness, or replaces the one of its name.
	AddHealthzCheck(name string, check Checker) error
	// AddReadyzCheck adds a check to readiness, or replaces the one of its name.
	AddReadyzCheck(name string, check Checker) error
	// AddMetricsServerExtraHandler serves something beside /metrics.
	AddMetricsServerExtraHandler(path string, h http.Handler) error
	// GetMetricsRegistry returns where metrics are registered, and may be by anybody.
	GetMetricsRegistry() Registry
	// GetTracerProvider returns that of the options, which may be nil.
	GetTracerProvider() trace.TracerProvider

	// GetWebhookServer returns the server of the options, which may be nil, and has it run.
	GetWebhookServer() WebhookServer
	GetLogger() logr.Logger
	// GetControllerOptions returns the defaults for controllers.
	GetControllerOptions() ControllerOptions
}

// A WebhookServer serves webhooks: see package webhook, which makes them.
type WebhookServer interface {
	LeaderElectionRunnable
	// Register serves a webhook at a path.
	Register(path string, hook http.Handler)
	// StartedChecker is a Checker that is content as soon as the server serves.
	StartedChecker() func(*http.Request) error
	WebhookMux() *http.ServeMux
}

// A controllerName is had by Runnables whose names must differ: that of package controller.
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
	election   *election // nil: there is none

	live, ready checks
	extra       *http.ServeMux // of the metrics server

	// In the order in which they start.
	servers, webhooks, caches, others, warmups, leaders group

	elected chan struct{}
	failed  failure

	mu          sync.Mutex
	started     bool
	controllers map[string]bool // by name
	hooked      bool            // the webhook server is to run
}

// New makes a manager. It sends nothing, and starts no goroutine, before Start.
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

// NewManager is New, under the name that it has where many packages are one.
func NewManager(cfg *rest.Config, opts Options) (Manager, error) { return New(cfg, opts) }

func (m *manager) initGroups() {
	for g, name := range map[*group]string{&m.servers: "servers", &m.webhooks: "webhooks", &m.caches: "caches",
		&m.others: "runnables that need no leader election", &m.warmups: "warmups", &m.leaders: "runnables of the leader"} {
		g.name, g.fail = name, m.fail
	}
}

// initConfig makes the one HTTP client of everything, with metrics and traces.
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
		cfg.QPS = -1 // client-go's default is few requests a second, and events and leases would wait for each other
	}
	cfg.Wrap(m.metrics.counted)
	if p := m.opts.TracerProvider; p != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return traced(p, next) })
	}
	return cfg
}

// initReads makes the mapper, the cache and the clients.
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
	if m.cache, err = cache.New(m.cfg, c); err != nil {
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
	if m.client, err = client.New(m.cfg, cached); err != nil {
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
			return errors.New("manager: the registry has the metrics of another webhook server: managers with two of these need a registry each")
		}
	}
	if m.extra, err = metricsHandler(m.opts.Metrics.Registry, m.opts.Metrics.ExtraHandlers); err != nil {
		return err
	}
	o := &m.opts
	for _, s := range []*server{
		{name: "metrics", address: o.Metrics.BindAddress, handler: m.extra},
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

// addName fails for the second controller of a name, which would share metrics with the first. "" is no name.
func (m *manager) addName(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "" && m.controllers[name] {
		return fmt.Errorf("manager: there is a controller %q already: names must be unique, for metrics and logs", name)
	}
	m.controllers[name] = true
	return nil
}

func (m *manager) groupOf(r Runnable) *group {
	switch r := r.(type) {
	case cache.Cache:
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
	return handle(m.extra, path, h)
}

func (m *manager) GetEventRecorder(name string) EventRecorder {
	return m.events.newV1Recorder(m.opts.Scheme, name)
}

func (m *manager) GetEventRecorderFor(name string) record.EventRecorder {
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
