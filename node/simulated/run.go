package simulated

import (
	"context"
	"log/slog"

	"github.com/kapok-dev/kapok/node/internal/kubelet"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// UserAgent is that of the kubelet: managedFields show it as the manager of what nodes write.
const UserAgent = kubelet.UserAgent

// Run runs the nodes against the server of cfg until ctx ends, and returns after they have stopped,
// or the error that ended them. Metrics are registered in a registry that may have them already;
// nil is one of its own. With elect, a Lease in kube-system decides which one of several such
// programs acts. Run is the method of kapok.Options.Controllers.
func (o Options) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error {
	return kubelet.Run(ctx, cfg, log, metrics, elect, o.Add)
}
