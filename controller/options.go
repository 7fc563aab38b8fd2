package controller

import (
	"time"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a controller whose requests are keys of objects.
type Options = TypedOptions[Request]

// TypedOptions configure a controller. A zero field has the value of manager.Options.Controller, or
// else the default given here.
type TypedOptions[request comparable] struct {
	// Reconciler handles the requests. Required, unless it is passed to a Builder.
	Reconciler TypedReconciler[request]
	// MaxConcurrentReconciles is the number of workers. Default 1.
	MaxConcurrentReconciles int
	// RateLimiter returns the delay of a request after an error. Default: 5 ms after the first,
	// doubled after each further one, up to 1,000 s.
	RateLimiter workqueue.RateLimiter[request]
	// UsePriorityQueue has no effect: the queue always has priorities.
	UsePriorityQueue *bool
	// Group returns the group of a request. Groups take turns, so that many requests of one group
	// do not delay those of others: see ByNamespace. It must be fast and deterministic. Default:
	// one group.
	Group func(request) string

	// Owns reports whether this process handles a request; the controller drops all others. See
	// manager.ControllerOptions. Default: every request.
	Owns func(request) bool

	// CacheSyncTimeout is the time after which the controller fails if its sources have not synced.
	// Negative: no limit, for example for a kind that is defined later. Default 2 minutes.
	CacheSyncTimeout time.Duration
	// ReconciliationTimeout is the timeout of the context of one call of Reconcile. Default: no
	// limit.
	ReconciliationTimeout time.Duration
	// RecoverPanic turns a panic in Reconcile into an error. Otherwise the panic ends the program.
	// Default true.
	RecoverPanic *bool
	// NeedLeaderElection runs the controller only while its manager is the leader. Default true.
	NeedLeaderElection *bool
	// EnableWarmup starts the sources before the manager is the leader, which shortens a failover.
	// Default false.
	EnableWarmup *bool
	// SkipNameValidation allows several controllers with one name in a manager. They share their
	// metrics. Default false.
	SkipNameValidation *bool

	// Logger is the base of the loggers of requests.
	Logger logr.Logger
	// LogConstructor returns the logger of a request, or of the controller for nil. Default: Logger
	// with controller, and with namespace and name of a Request, or with a request of another type
	// as it is. A Builder adds controllerGroup and controllerKind.
	LogConstructor func(*request) logr.Logger
	// Registerer registers the metrics. Default: the manager's registry, or none without a manager.
	Registerer prometheus.Registerer
	// TracerProvider receives a span for each reconcile. Default: the manager's, or none.
	TracerProvider trace.TracerProvider
}

// ByNamespace is a Group in which namespaces take turns.
func ByNamespace(r Request) string { return r.Namespace }

// inherit sets unset fields from a manager.
func (o *TypedOptions[request]) inherit(name string, m manager.Manager) {
	d := m.GetControllerOptions()
	if o.Owns == nil && d.Owns != nil {
		o.Owns = func(r request) bool { return d.Owns(name, r) }
	}
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

// complete sets defaults.
func (o *TypedOptions[request]) complete(name string) {
	if o.MaxConcurrentReconciles <= 0 {
		o.MaxConcurrentReconciles = 1
	}
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.ExponentialBackoff[request](5*time.Millisecond, 1000*time.Second)
	}
	if o.CacheSyncTimeout == 0 {
		o.CacheSyncTimeout = 2 * time.Minute
	}
	if o.Logger.GetSink() == nil {
		o.Logger = manager.Log
	}
	if o.LogConstructor == nil {
		o.LogConstructor = logConstructor[request](o.Logger.WithValues("controller", name), "object")
	}
}

func isTrue(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}
