// Package optional has Kubernetes' small plugins that are off by default, and are not about pods:
// each is a type with Kubernetes' name.
//
//	AlwaysDeny             rejects all writes
//	DenyServiceExternalIPs services get no external IPs
//	NamespaceAutoProvision namespaces are created together with the first object in them
//	NamespaceExists        writes need an existing namespace
//
// The plugins read the state at each request. They start no goroutine and have no locks.
package optional

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
)

// AlwaysDeny is Kubernetes' plugin of that name: it rejects everything but reads.
type AlwaysDeny struct{}

// Handles implements admission.Plugin.
func (AlwaysDeny) Handles(*resource.Request, resource.Operation) bool { return true }

// Mutate implements admission.Mutator. Kubernetes rejects requests here already.
func (AlwaysDeny) Mutate(_ context.Context, a *resource.Admitted) error {
	return admission.Forbidden(a, errors.New("admission control is denying all modifications"))
}

// Validate implements admission.Validator.
func (d AlwaysDeny) Validate(ctx context.Context, a *resource.Admitted) error {
	return d.Mutate(ctx, a)
}
