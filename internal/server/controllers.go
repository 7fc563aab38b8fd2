package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// Controllers run with a server, on its objects. Package controllers has Kubernetes' own.
type Controllers interface {
	// Validate returns an error for options that are out of range or contradict each other.
	Validate() error
	// Run runs the controllers until ctx ends, and returns after all of them have stopped. cfg reaches
	// the server in memory. elect is true if other servers may run the same controllers on the same
	// objects: then one of them must be elected. The server runs them again when Run returns early,
	// with the same metrics, which it serves beside its own.
	Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error
}

// Together are several Controllers that run at the same time. Those that are nil are left out.
type Together []Controllers

// Validate implements Controllers.
func (all Together) Validate() error {
	for _, c := range all {
		if c != nil {
			if err := c.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run implements Controllers. When one of them ends, the others are stopped, too.
func (all Together) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, c := range all {
		if c != nil {
			group.Go(func() { cancel(c.Run(ctx, rest.CopyConfig(cfg), log, metrics, elect)) })
		}
	}
	group.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// controllersRetry is the time between two runs of controllers that ended early.
const controllersRetry = time.Second

// runControllers runs controllers until ctx ends.
func runControllers(ctx context.Context, c Controllers, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) {
	for {
		err := c.Run(ctx, rest.CopyConfig(cfg), log, metrics, elect)
		if ctx.Err() != nil {
			return
		}
		log.Error("controllers ended and are started again", "after", controllersRetry, "err", err)
		select {
		case <-time.After(controllersRetry):
		case <-ctx.Done():
			return
		}
	}
}
