package hooks

import (
	"log/slog"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure Hooks. State and Caller are required.
type Options struct {
	State  *state.State    // has the configurations and namespaces
	Caller *webhook.Caller // sends requests; its owner closes it
	// Authorizer answers the authorization checks of conditions. Default: no opinion.
	Authorizer authz.Authorizer
	// CallForReviews lets webhooks be called for reviews, such as TokenReviews, as before Kubernetes
	// 1.37.
	CallForReviews bool
	// Logger receives the errors of ignored webhooks. Default: none.
	Logger *slog.Logger
}

// Hooks are the webhooks of a server. They are safe for concurrent use.
type Hooks struct {
	Options
	metrics    *Metrics
	mutating   *source
	validating *source
}

// New returns the webhooks that the configurations in the state name at any time.
func New(o Options) *Hooks {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hooks{
		Options:    o,
		metrics:    newMetrics(),
		mutating:   newSource(o, "mutatingwebhookconfigurations"),
		validating: newSource(o, "validatingwebhookconfigurations"),
	}
}

// Metrics returns the metrics of calls.
func (h *Hooks) Metrics() *Metrics { return h.metrics }

// UseMutating puts MutatingWebhookConfigurations from files in effect, sorted by name, in place of
// those before. They are valid ones of v1. Their webhooks are called before those in the state, and
// also for the resources of configurations and policies.
func (h *Hooks) UseMutating(configurations []resource.Tree) error {
	return h.mutating.use(configurations)
}

// UseValidating is UseMutating for ValidatingWebhookConfigurations.
func (h *Hooks) UseValidating(configurations []resource.Tree) error {
	return h.validating.use(configurations)
}

// Mutating returns Kubernetes' plugin MutatingAdmissionWebhook.
func (h *Hooks) Mutating() admission.Mutator { return mutating{h} }

// Validating returns Kubernetes' plugin ValidatingAdmissionWebhook.
func (h *Hooks) Validating() admission.Validator { return validating{h} }

// group is the API group of the configurations.
const group = "admissionregistration.k8s.io"

// configurations are the resources for which only webhooks from files are called.
var configurations = map[schema.GroupResource]bool{
	{Group: group, Resource: "mutatingwebhookconfigurations"}:     true,
	{Group: group, Resource: "validatingwebhookconfigurations"}:   true,
	{Group: group, Resource: "mutatingadmissionpolicies"}:         true,
	{Group: group, Resource: "mutatingadmissionpolicybindings"}:   true,
	{Group: group, Resource: "validatingadmissionpolicies"}:       true,
	{Group: group, Resource: "validatingadmissionpolicybindings"}: true,
}

// reviews are the resources for which no webhook is called, unless Options.CallForReviews is set.
var reviews = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}
