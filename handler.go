package kapok

import (
	"context"
	"fmt"
	"net/http"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/builtin"
	"github.com/kapok-dev/kapok/internal/crd"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/reaper"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

// handler is what the server serves, at either door.
type handler interface {
	http.Handler
	// EndWatches ends all watches, and those that are still to come at once.
	EndWatches()
	// Close ends what the handler runs besides requests. None is under way then.
	Close()
}

// inner is the inside of the server: the kinds, what follows them, and the HTTP
// surface over all.
type inner struct {
	*endpoint.Handler
	kinds  *crd.Controller
	reaper *reaper.Reaper // nil if garbage is kept
}

// parts are what the inside of the server is built on.
type parts struct {
	state         *state.State
	authenticator *auth.Authenticator
	address       string // of the socket, HOST:PORT; empty without one
	options       Options
}

// newHandler builds the inside of the server.
func newHandler(p parts) (handler, error) {
	registry := resource.NewRegistry(append(builtin.Definitions(), crd.Definition(p.options.V1beta1CRDs))...)
	store := resource.NewStore(p.state, registry)
	ctx := context.Background() // only while the server starts
	if err := builtin.EnsureNamespaces(ctx, store); err != nil {
		return nil, err
	}
	kinds, err := crd.Start(ctx, store, nil, p.options.Logger)
	if err != nil {
		return nil, fmt.Errorf("custom resources: %w", err)
	}
	in := &inner{
		kinds: kinds,
		Handler: endpoint.New(endpoint.Options{
			Store:         store,
			Authenticator: p.authenticator,
			OpenAPI:       endpoint.OpenAPI(registry, serverVersion().GitVersion),
			Logger:        p.options.Logger,
			Version:       serverVersion(),
			Address:       p.address,
			Checks: []endpoint.Check{{
				Name: "journal",
				Run:  func(*http.Request) error { return p.state.Health() },
			}},
		}),
	}
	if !p.options.KeepGarbage {
		in.reaper = reaper.Start(ctx, store, p.options.Logger)
	}
	return in, nil
}

// Close implements handler.
func (in *inner) Close() {
	in.Handler.Close()
	if in.reaper != nil {
		in.reaper.Close()
	}
	in.kinds.Close()
}
