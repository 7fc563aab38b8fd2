package controller

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"
)

// Options are the settings of a controller. What is zero is as the manager has it (see manager.Options.Controller), and else as is
// said here.
type Options struct {
	// Reconciler does the work. It must be set, unless a Builder does so.
	Reconciler Reconciler
	// MaxConcurrentReconciles is how many objects are reconciled at a time. Default 1.
	MaxConcurrentReconciles int
	// RateLimiter says how long a request waits after errors. Default: 5 ms after the first, twice as long after each further one,
	// 1,000 s at most.
	RateLimiter workqueue.RateLimiter[Request]
	// Group names the group of a request. Groups take turns, so that many requests of one do not keep others waiting: see
	// ByNamespace. It must be fast, and always answer the same for the same request. Default: first come, first served.
	Group func(Request) string

	// CacheSyncTimeout is how long sources may take until they have synced. After that the controller fails. Negative: it waits for as
	// long as it runs, for instance for a kind that is still to be defined. Default 2 minutes.
	CacheSyncTimeout time.Duration
	// ReconciliationTimeout is how long one Reconcile may take until its context ends. Default: as long as it likes.
	ReconciliationTimeout time.Duration
	// RecoverPanic makes an error of a panic in Reconcile. Otherwise it ends the program. Default true.
	RecoverPanic *bool
	// NeedLeaderElection has the controller run only while its manager is the leader. Default true.
	NeedLeaderElection *bool
	// EnableWarmup has the sources start before the manager is the leader, so that it has less to do when it becomes that. Default false.
	EnableWarmup *bool
	// SkipNameValidation allows several controllers of one name in a manager. They share their metrics. Default false.
	SkipNameValidation *bool

	// Logger is what the logger of a request is made of.
	Logger logr.Logger
	// LogConstructor makes the logger of a request, or, for nil, of the controller. Default: Logger with controller, and with
	// namespace and name of the request; a Builder adds controllerGroup and controllerKind.
	LogConstructor func(*Request) logr.Logger
	// Registerer is where metrics are registered. Default: nowhere.
	Registerer prometheus.Registerer
	// TracerProvider gets a span for each reconcile. Default: none is made.
	TracerProvider trace.TracerProvider
}

// ByNamespace is a Group: the namespaces take turns.
func ByNamespace(r Request) string { return r.Namespace }

// inherit takes from a manager what is not set.
func (o *Options) inherit(m manager.Manager) {
	d := m.GetControllerOptions()
	inherit(&o.MaxConcurrentReconciles, d.MaxConcurrentReconciles)
	inherit(&o.CacheSyncTimeout, d.CacheSyncTimeout)
	inherit(&o.ReconciliationTimeout, d.ReconciliationTimeout)
	inherit(&o.RecoverPanic, d.RecoverPanic)
	inherit(&o.NeedLeaderElection, d.NeedLeaderElection)
	inherit(&o.EnableWarmup, d.EnableWarmup)
	inherit(&o.SkipNameValidation, d.SkipNameValidation)
	if o.Logger.GetSink() == nil {
		o.Logger = d.Logger
	}
	if o.Registerer == nil {
		o.Registerer = m.GetMetricsRegistry()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = m.GetTracerProvider()
	}
}

func inherit[T comparable](value *T, from T) {
	var zero T
	if *value == zero {
		*value = from
	}
}

// complete fills in defaults.
func (o *Options) complete(name string) {
	if o.MaxConcurrentReconciles <= 0 {
		o.MaxConcurrentReconciles = 1
	}
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.ExponentialBackoff[Request](5*time.Millisecond, 1000*time.Second)
	}
	if o.CacheSyncTimeout == 0 {
		o.CacheSyncTimeout = 2 * time.Minute
	}
	if o.Logger.GetSink() == nil {
		o.Logger = manager.Log
	}
	if o.LogConstructor == nil {
		o.LogConstructor = logConstructor(o.Logger.WithValues("controller", name), "object")
	}
}

func isTrue(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}
