package hooks

import (
	"log/slog"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options are what Hooks are built on.
type Options struct {
	State  *state.State    // of configurations and namespaces
	Caller *webhook.Caller // who calls; it is the caller's to close
	// Authorizer answers what conditions ask of it. Nil has no opinion.
	Authorizer auth.Authorizer
	// Logger is told of webhooks that were ignored. Nil for none.
	Logger *slog.Logger
}

// Hooks are the webhooks of a server.
type Hooks struct {
	Options
	metrics    *Metrics
	mutating   source
	validating source
}

// New returns the webhooks that are configured, at any time.
func New(o Options) *Hooks {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hooks{
		Options:    o,
		metrics:    newMetrics(),
		mutating:   newSource(o.State, "mutatingwebhookconfigurations"),
		validating: newSource(o.State, "validatingwebhookconfigurations"),
	}
}

// Metrics tell of calls.
func (h *Hooks) Metrics() *Metrics { return h.metrics }

// Mutating is the plugin that Kubernetes calls MutatingAdmissionWebhook.
func (h *Hooks) Mutating() admission.Mutator { return mutating{h} }

// Validating is the plugin that Kubernetes calls ValidatingAdmissionWebhook.
func (h *Hooks) Validating() admission.Validator { return validating{h} }

// group is that of the configurations.
const group = "admissionregistration.k8s.io"

// unasked are the resources that nobody is asked about.
var unasked = map[schema.GroupResource]bool{
	{Group: group, Resource: "mutatingwebhookconfigurations"}:              true,
	{Group: group, Resource: "validatingwebhookconfigurations"}:            true,
	{Group: group, Resource: "mutatingadmissionpolicies"}:                  true,
	{Group: group, Resource: "mutatingadmissionpolicybindings"}:            true,
	{Group: group, Resource: "validatingadmissionpolicies"}:                true,
	{Group: group, Resource: "validatingadmissionpolicybindings"}:          true,
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

// handles says whether any webhook of a source may want to see a request.
func handles(s *source, r *resource.Request) bool {
	return !s.load().empty() && !unasked[r.Definition.GroupResource()]
}
