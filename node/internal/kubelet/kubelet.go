// Package kubelet runs programs that act for kubelets, each with a manager of its own, and has what
// they share.
package kubelet

import (
	"context"
	"log/slog"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// Port is the port of the kubelet in the status of a node.
const Port = 10250

// Version is the version of the kubelet in the status of a node.
const Version = "v1.37.2"

// UserAgent is that of the kubelet: managedFields show it as the manager of what nodes write.
const UserAgent = "kubelet"

// Run runs what add adds to a manager against the server of cfg until ctx ends, and returns after
// it has stopped, or the error that ended it. Metrics are registered in a registry that may have
// them already; nil is one of its own. With elect, a Lease in kube-system decides which one of
// several such programs acts.
func Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool, add func(manager.Manager) error) error {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = UserAgent
	options := manager.Options{Logger: logr.FromSlogHandler(log.Handler())}
	options.Metrics.Registry = metrics
	if metrics == nil {
		options.Metrics.Registry = prometheus.NewRegistry()
	}
	options.Cache.State, options.Cache.UnsafeSharedEvents = local.Of(cfg), true
	if elect {
		options = options.WithElection("kapok-nodes")
	}
	m, err := manager.New(cfg, options)
	if err != nil {
		return err
	}
	if err := add(m); err != nil {
		return err
	}
	return m.Start(ctx)
}
