package manager

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
)

// Options are the settings of a manager. The zero value serves nothing on a socket, and takes part in no election.
type Options struct {
	// Scheme has the Go types of the kinds. Default: that of k8s.io/client-go/kubernetes/scheme, with all built-in kinds.
	Scheme *runtime.Scheme
	// MapperProvider makes the RESTMapper. Default: client.NewRESTMapper.
	MapperProvider func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Cache are the settings of the cache. What it does not say is as here.
	Cache cache.Options
	// Client are the settings of the client. What it does not say is as here; if Client.Cache has no Reader, that is the manager's cache.
	Client client.Options
	// Logger gets what the manager has to tell, and comes to Runnables and reconcilers by their contexts. Default: Log.
	Logger logr.Logger
	// TracerProvider gets a span of each reconcile, and of the requests that it sends. Default: none is made.
	TracerProvider trace.TracerProvider
	// Controller are defaults for the controllers of the manager.
	Controller ControllerOptions

	// LeaderElection has Runnables run only while the manager holds a Lease.
	LeaderElection bool
	// LeaderElectionID is the name of the Lease. It must be set.
	LeaderElectionID string
	// LeaderElectionNamespace is the namespace of the Lease. Default: that of the pod; outside of a cluster it must be set.
	LeaderElectionNamespace string
	// LeaderElectionConfig says which server has the Lease. Default: the one that the manager works on.
	LeaderElectionConfig *rest.Config
	// LeaderElectionReleaseOnCancel has the Lease released when the manager stops and all its Runnables have ended, so that another
	// need not wait until it runs out. It is not released while one of them still runs. Default: true. (controller-runtime's
	// default is false.)
	LeaderElectionReleaseOnCancel *bool
	// LeaderElectionLabels are labels that the leader puts on the Lease.
	LeaderElectionLabels map[string]string
	// LeaderElectionResourceLockInterface is a lock of another sort. ID, Namespace, Config and Labels are not used then.
	LeaderElectionResourceLockInterface resourcelock.Interface
	// LeaseDuration is how long others wait since they saw the Lease renewed for the last time. Default 15 s.
	LeaseDuration *time.Duration
	// RenewDeadline is how long the leader tries to renew the Lease before it gives up. It is less than LeaseDuration. Default 10 s.
	RenewDeadline *time.Duration
	// RetryPeriod is the time between two tries, to get the Lease or to renew it. Default 2 s.
	RetryPeriod *time.Duration

	// Metrics says where metrics are kept and served.
	Metrics MetricsOptions
	// HealthProbeBindAddress is where health is served, HOST:PORT, over HTTP. Default, and "0": nowhere.
	HealthProbeBindAddress string
	// ReadinessEndpointName and LivenessEndpointName are the paths of health. Defaults: /readyz and /healthz.
	ReadinessEndpointName, LivenessEndpointName string
	// PprofBindAddress is where profiles are served, HOST:PORT, over HTTP, to everybody who can reach it. Default, and "0": nowhere.
	PprofBindAddress string
	// WebhookServer is what webhooks are registered with: see webhook.NewServer. It runs if somebody calls GetWebhookServer. If it is a
	// prometheus.Collector, its metrics are registered. Default: there is none.
	WebhookServer WebhookServer

	// BaseContext makes the context that those of Runnables come from. Its end does not matter. Default: the values of the context
	// of Start.
	BaseContext func() context.Context
	// GracefulShutdownTimeout is how long Runnables may take to end. 0: Start does not wait for them, and as it cannot know
	// whether they have ended, the Lease is left to run out; negative: it waits as long as they take. Default 30 s.
	GracefulShutdownTimeout *time.Duration
}

// ControllerOptions are defaults for the options of controllers, which package controller explains.
type ControllerOptions struct {
	// GroupKindConcurrency is MaxConcurrentReconciles by the kind of Builder.For, as in "ReplicaSet.apps".
	GroupKindConcurrency map[string]int

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
	if o.Logger.GetSink() == nil {
		o.Logger = Log
	}
	if o.Controller.Logger.GetSink() == nil {
		o.Controller.Logger = o.Logger
	}
	o.LeaderElectionReleaseOnCancel = orDefault(o.LeaderElectionReleaseOnCancel, true)
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
		return errors.New("manager: liveness and readiness have the same path")
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
