package kapok

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/rbac"
	"github.com/kapok-dev/kapok/internal/auth/rbac/bootstrap"
	"github.com/kapok-dev/kapok/internal/resource"
)

// access is who decides what users may do.
type access struct {
	auth.Union
	roles *rbac.Authorizer
}

// newAccess returns who decides over a store, and creates the roles and bindings that every cluster has. Members of
// system:masters may everything, whatever else is configured, so that nobody locks himself out.
func newAccess(ctx context.Context, p parts, store *resource.Store) (*access, error) {
	if err := bootstrap.Ensure(ctx, store, !p.options.KeepGarbage); err != nil {
		return nil, fmt.Errorf("roles and bindings: %w", err)
	}
	roles := rbac.New(store.State())
	return &access{Union: auth.Union{auth.Basic{}, roles}, roles: roles}, nil
}

// aggregate begins to keep the rules of roles that gather those of others. It is a chore.
func aggregate(ctx context.Context, p parts, store *resource.Store) chore {
	return func() func() { return bootstrap.Start(ctx, store, p.options.Logger).Close }
}

// Close ends what access runs. Nobody may ask it from then on.
func (a *access) Close() { a.roles.Close() }
