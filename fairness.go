package kapok

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/resource"
)

// FairnessOptions bound how much the server does at a time, and for whom.
type FairnessOptions struct {
	// MaxRequestsInFlight and MaxMutatingRequestsInFlight bound the requests that
	// are served at a time: those that read, and those that write. Their sum is
	// what priority levels share. Defaults: those of kube-apiserver, 400 and 200.
	// Negative: none, which without fairness means that there is no bound.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int

	// Unfair serves whoever comes first, within these two bounds, and leaves
	// FlowSchemas and PriorityLevelConfigurations alone.
	Unfair bool

	// MaxWatchesPerUser bounds the watches that one user may have open. Default
	// 10,000; negative means no bound.
	MaxWatchesPerUser int
}

func (o *FairnessOptions) complete() error {
	if !o.Unfair && o.MaxRequestsInFlight < 0 && o.MaxMutatingRequestsInFlight < 0 {
		return errors.New("fairness needs requests to share: set MaxRequestsInFlight or MaxMutatingRequestsInFlight, or Unfair")
	}
	return nil
}

// newLimiter makes what Kubernetes has of flow schemas and priority levels from its
// start, and what follows them.
func newLimiter(ctx context.Context, store *resource.Store, opts Options) (*fairness.Limiter, error) {
	f := opts.Fairness
	if err := fairness.Ensure(ctx, store, f.Unfair); err != nil {
		return nil, err
	}
	return fairness.New(fairness.Options{
		Store:          store,
		Reading:        f.MaxRequestsInFlight,
		Writing:        f.MaxMutatingRequestsInFlight,
		Plain:          f.Unfair,
		WatchesPerUser: f.MaxWatchesPerUser,
		Logger:         opts.Logger,
	}), nil
}
