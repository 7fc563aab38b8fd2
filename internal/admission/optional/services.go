package optional

import (
	"context"
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
)

// DenyServiceExternalIPs is Kubernetes' plugin of that name: it rejects services with new external
// IPs, by which their authors could receive the traffic of others. Those that a service has may
// stay.
type DenyServiceExternalIPs struct{}

// Handles implements admission.Plugin.
func (DenyServiceExternalIPs) Handles(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) &&
		r.Subresource == "" && r.Definition.Plural == "services" && r.Definition.Group == ""
}

// Validate implements admission.Validator.
func (DenyServiceExternalIPs) Validate(_ context.Context, a *resource.Admitted) error {
	known := externalIPs(a.Old)
	for _, ip := range externalIPs(a.Object) {
		if !slices.Contains(known, ip) {
			//lint:ignore ST1005 Kubernetes' words
			return admission.Forbidden(a, errors.New("Use of external IPs is denied by admission control"))
		}
	}
	return nil
}

func externalIPs(service resource.Tree) []any {
	spec, _ := service["spec"].(map[string]any)
	ips, _ := spec["externalIPs"].([]any)
	return ips
}
