package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// Options configure a manager. The zero value opens no socket and takes part in no leader election.
type Options struct {
	// Scheme maps Go types to kinds. Default: the scheme of k8s.io/client-go/kubernetes/scheme,
	// which has all built-in kinds.
	Scheme *runtime.Scheme
	// MapperProvider creates the RESTMapper. Default: client.NewRESTMapper.
	MapperProvider func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Cache configures the cache. Unset fields are taken from these Options.
	Cache cache.Options
	// Client configures the client. Unset fields are taken from these Options. If Client.Cache has
	// no Reader, it is the manager's cache.
	Client client.Options
	// NewCache creates the cache from Cache, with its unset fields filled in. Default: cache.New.
	NewCache cache.NewCacheFunc
	// NewClient creates the client from Client, with its unset fields filled in, CacheOptions
	// included. Default: client.New.
	NewClient client.NewClientFunc
	// EventBroadcaster records the events of GetEventRecorderFor. The manager owns it: it starts it
	// with Start and shuts it down. Default: the manager's own.
	EventBroadcaster record.EventBroadcaster
	// Logger is the manager's logger, and the logger in the contexts of Runnables and Reconcilers.
	// Default: Log.
	Logger logr.Logger
	// TracerProvider receives a span for each reconcile and for each request sent by it. Default:
	// no spans.
	TracerProvider trace.TracerProvider
	// Controller has defaults for the options of the manager's controllers.
	Controller ControllerOptions

	// LeaderElection runs Runnables that need leader election only while the manager holds the
	// Lease. Default: false.
	LeaderElection bool
	// LeaderElectionResourceLock is the kind of the lock: "leases", or "", which means the same.
	LeaderElectionResourceLock string
	// LeaderElectionID is the name of the Lease. Required with LeaderElection.
	LeaderElectionID string
	// LeaderElectionNamespace is the namespace of the Lease. Default: the namespace of the pod.
	// Required outside of a cluster.
	LeaderElectionNamespace string
	// LeaderElectionConfig is the configuration for the server that has the Lease. Default: the
	// manager's own.
	LeaderElectionConfig *rest.Config
	// LeaderElectionReleaseOnCancel has no effect: the manager always releases the Lease after all
	// Runnables have ended, and never before. (controller-runtime's default is not to release it.)
	LeaderElectionReleaseOnCancel bool
	// LeaderElectionKeepOnCancel lets the Lease expire instead of releasing it when the manager
	// stops.
	LeaderElectionKeepOnCancel bool
	// LeaderElectionLabels are labels that the leader sets on the Lease.
	LeaderElectionLabels map[string]string
	// LeaderElectionResourceLockInterface replaces the Lease by another lock. ID, Namespace, Config
	// and Labels are then ignored.
	LeaderElectionResourceLockInterface resourcelock.Interface
	// LeaseDuration is the time after the last observed renewal at which other candidates try to
	// acquire the Lease. In the Lease it is rounded up to a second. Default 15 s.
	LeaseDuration *time.Duration
	// RenewDeadline is the time after which a leader that cannot renew the Lease gives up. It must
	// be less than LeaseDuration. Default 10 s.
	RenewDeadline *time.Duration
	// RetryPeriod is the time between two attempts to acquire or renew the Lease. Default 2 s.
	RetryPeriod *time.Duration

	// Metrics configures the registry and the server of metrics.
	Metrics MetricsOptions
	// HealthProbeBindAddress is the HOST:PORT that serves health checks, over HTTP. Default, and
	// "0": not served.
	HealthProbeBindAddress string
	// ReadinessEndpointName and LivenessEndpointName are the paths of the health checks. Defaults:
	// /readyz and /healthz.
	ReadinessEndpointName, LivenessEndpointName string
	// PprofBindAddress is the HOST:PORT that serves profiles, over HTTP and without authentication.
	// Default, and "0": not served.
	PprofBindAddress string
	// WebhookServer serves the webhooks: see webhook.NewServer. It starts only if GetWebhookServer
	// is called. If it is a prometheus.Collector, its metrics are registered. Default: none.
	WebhookServer WebhookServer

	// BaseContext returns the parent of the contexts of Runnables. Its cancellation has no effect.
	// Default: the values of the context of Start.
	BaseContext func() context.Context
	// GracefulShutdownTimeout limits the time that Start waits for Runnables to end. With 0 Start
	// does not wait, and because Runnables may still run, the Lease expires instead of being
	// released. Negative: no limit. Default 30 s.
	GracefulShutdownTimeout *time.Duration
}

// BaseContextFunc is the type of Options.BaseContext.
type BaseContextFunc = func() context.Context

// ControllerOptions are defaults for the options of controllers: see controller.Options for their
// meaning.
type ControllerOptions struct {
	// GroupKindConcurrency is MaxConcurrentReconciles by the kind of Builder.For, such as
	// "ReplicaSet.apps".
	GroupKindConcurrency map[string]int
	// UsePriorityQueue has no effect: the queue of a controller always has priorities.
	UsePriorityQueue *bool

	// Owns reports whether this process handles a request of a controller. Controllers drop all other
	// requests: another process has them, see package manager/shards. Its answers must not change. It
	// must be safe for concurrent use. Default: every request.
	Owns func(controller string, request any) bool

	SkipNameValidation      *bool
	MaxConcurrentReconciles int
	CacheSyncTimeout        time.Duration
	RecoverPanic            *bool
	NeedLeaderElection      *bool
	EnableWarmup            *bool
	ReconciliationTimeout   time.Duration
	Logger                  logr.Logger
}

// complete fills in defaults.
func (o *Options) complete() error {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.MapperProvider == nil {
		o.MapperProvider = client.NewRESTMapper
	}
	if o.NewCache == nil {
		o.NewCache = cache.New
	}
	if o.NewClient == nil {
		o.NewClient = client.New
	}
	if o.LeaderElectionResourceLock != "" && o.LeaderElectionResourceLock != resourcelock.LeasesResourceLock {
		return fmt.Errorf("manager: LeaderElectionResourceLock %q: must be %q; for another lock set LeaderElectionResourceLockInterface",
			o.LeaderElectionResourceLock, resourcelock.LeasesResourceLock)
	}
	if o.Logger.GetSink() == nil {
		o.Logger = Log
	}
	if o.Controller.Logger.GetSink() == nil {
		o.Controller.Logger = o.Logger
	}
	if o.LeaderElectionReleaseOnCancel && o.LeaderElectionKeepOnCancel {
		return errors.New("manager: LeaderElectionReleaseOnCancel and LeaderElectionKeepOnCancel are both set: set one of them")
	}
	o.LeaseDuration = orDefault(o.LeaseDuration, 15*time.Second)
	o.RenewDeadline = orDefault(o.RenewDeadline, 10*time.Second)
	o.RetryPeriod = orDefault(o.RetryPeriod, 2*time.Second)
	o.GracefulShutdownTimeout = orDefault(o.GracefulShutdownTimeout, 30*time.Second)
	var err error
	if o.ReadinessEndpointName, err = endpoint(o.ReadinessEndpointName, "/readyz"); err != nil {
		return err
	}
	if o.LivenessEndpointName, err = endpoint(o.LivenessEndpointName, "/healthz"); err != nil {
		return err
	}
	if o.ReadinessEndpointName == o.LivenessEndpointName {
		return errors.New("manager: LivenessEndpointName and ReadinessEndpointName are the same path")
	}
	if o.Metrics.Registry == nil {
		o.Metrics.Registry = newRegistry()
	}
	return nil
}

func orDefault[T any](value *T, otherwise T) *T {
	if value == nil {
		return &otherwise
	}
	return value
}
