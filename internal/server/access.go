package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/modes"
	"github.com/kapok-dev/kapok/internal/authz/node"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/housekeeping"
	"github.com/kapok-dev/kapok/internal/housekeeping/roles"
	"github.com/kapok-dev/kapok/internal/resource"
)

// access is the authorizer of a server.
type access struct {
	authz.Union
	chain *modes.Chain
	roles *rbac.Authorizer

	stop     context.CancelFunc
	watching sync.WaitGroup
}

// newAccess returns the authorizer over a store, and creates the default roles and bindings of
// Kubernetes. Members of system:masters are allowed before any authorizer is called, so that no
// configuration can lock out the admin.
func newAccess(ctx context.Context, p parts, store *resource.Store) (*access, error) {
	if err := roles.Ensure(ctx, store, !p.options.KeepGarbage, p.options.Logger); err != nil {
		return nil, fmt.Errorf("roles and bindings: %w", err)
	}
	o := p.options.Access
	ofNodes, err := roles.OfNodes()
	if err != nil {
		return nil, err
	}
	nodes := node.New(store.State(), ofNodes)
	roles := rbac.New(store.State())
	chain, err := modes.Open(o, nodes, roles, p.options.Logger)
	if err != nil {
		return nil, err
	}
	a := &access{Union: authz.Union{authz.Basic{}, chain}, chain: chain, roles: roles, stop: func() {}}
	if o.ConfigFile != "" {
		watched, stop := context.WithCancel(context.WithoutCancel(ctx))
		a.stop = stop
		a.watching.Go(func() { chain.Watch(watched) })
	}
	return a, nil
}

// gatherRoles returns the task that aggregates cluster roles.
func gatherRoles(ctx context.Context, store *resource.Store, log *slog.Logger) housekeeping.Task {
	return func() func() { return roles.Start(ctx, store, log).Close }
}

// Close stops the goroutines of the authorizer. It must not be used afterwards.
func (a *access) Close() {
	a.stop()
	a.watching.Wait()
	a.chain.Close()
}
