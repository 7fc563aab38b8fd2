package kapok

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/modes"
	"github.com/kapok-dev/kapok/internal/auth/rbac"
	"github.com/kapok-dev/kapok/internal/auth/rbac/bootstrap"
	"github.com/kapok-dev/kapok/internal/resource"
)

// AccessOptions say who decides what users may do; zero values mean roles and bindings (RBAC). Members of
// system:masters may everything, whatever is configured.
type AccessOptions struct {
	// Modes are who is asked, in this order, until one has an opinion: RBAC, Webhook, AlwaysAllow. Default: RBAC.
	Modes []string
	// ConfigFile is a file with Kubernetes' AuthorizationConfiguration, instead of Modes. It is read again when it changes.
	ConfigFile string

	// WebhookConfigFile is a kubeconfig file that says where the webhook of the mode Webhook is.
	WebhookConfigFile string
	// WebhookVersion is the version of the SubjectAccessReviews that the webhook gets, v1 or v1beta1. Default v1beta1.
	WebhookVersion string
	// WebhookAuthorizedTTL and WebhookUnauthorizedTTL are how long an answer of the webhook counts. Default 5 minutes and 30 seconds.
	WebhookAuthorizedTTL, WebhookUnauthorizedTTL time.Duration
}

// access is who decides what users may do.
type access struct {
	auth.Union
	chain *modes.Chain
	roles *rbac.Authorizer

	stop     context.CancelFunc
	watching sync.WaitGroup
}

// newAccess returns who decides over a store, and creates the roles and bindings that every cluster has. The admin is let
// in before anybody is asked, so that nobody locks himself out.
func newAccess(ctx context.Context, p parts, store *resource.Store) (*access, error) {
	if err := bootstrap.Ensure(ctx, store, !p.options.KeepGarbage, p.options.Logger); err != nil {
		return nil, fmt.Errorf("roles and bindings: %w", err)
	}
	o := p.options.Access
	roles := rbac.New(store.State())
	chain, err := modes.Open(modes.Settings{
		Modes: o.Modes, File: o.ConfigFile,
		WebhookFile: o.WebhookConfigFile, WebhookVersion: o.WebhookVersion,
		WebhookAuthorizedTTL: o.WebhookAuthorizedTTL, WebhookRefusedTTL: o.WebhookUnauthorizedTTL,
	}, roles, p.options.Logger)
	if err != nil {
		roles.Close()
		return nil, err
	}
	a := &access{Union: auth.Union{auth.Basic{}, chain}, chain: chain, roles: roles, stop: func() {}}
	if o.ConfigFile != "" {
		watched, stop := context.WithCancel(context.WithoutCancel(ctx))
		a.stop = stop
		a.watching.Go(func() { chain.Watch(watched) })
	}
	return a, nil
}

// gatherRoles begins to keep the rules of roles that gather those of others. It is a chore.
func gatherRoles(ctx context.Context, p parts, store *resource.Store) chore {
	return func() func() { return bootstrap.Start(ctx, store, p.options.Logger).Close }
}

// Close ends what access runs. Nobody may ask it from then on.
func (a *access) Close() {
	a.stop()
	a.watching.Wait()
	a.chain.Close()
	a.roles.Close()
}
