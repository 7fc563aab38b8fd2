package server

import (
	"context"

	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/housekeeping/flowschemas"
	"github.com/kapok-dev/kapok/internal/resource"
)

// startLimiter creates the default FlowSchemas and PriorityLevelConfigurations, keeps them up to
// date unless fairness is off, and returns the limiter that applies them. closers gets what it
// starts.
func startLimiter(ctx context.Context, store *resource.Store, o Options, closers *closers) (*fairness.Limiter, error) {
	if err := flowschemas.Ensure(ctx, store, o.Fairness.Unfair); err != nil {
		return nil, err
	}
	if !o.Fairness.Unfair {
		closers.do(flowschemas.Start(store, o.Logger).Close)
	}
	limiter := fairness.New(fairness.Config{Options: o.Fairness, State: store.State()})
	closers.do(limiter.Close)
	return limiter, nil
}
