// Package policy enforces ValidatingAdmissionPolicies and MutatingAdmissionPolicies, which validate
// and change objects with CEL expressions.
//
//	p := policy.New(store, authorizer)
//	admission.Chain{..., p.Mutating(), ..., p.Readers(), p.Validating(), ...}
//
// # The path of a request
//
// A policy has an effect only if a binding names it. The stored policies and bindings are kept as a
// set of compiled ones; a request that follows a write replaces the changed ones in it (source.go),
// so that a write takes effect with the next request. The expressions of a policy are compiled when
// a request first matches it, once for each generation (compile.go).
//
//	match     the rules and selectors (package match) of the policy, and then of the binding
//	collect   the parameters of the binding, of any kind that is served            params.go
//	show      the object and the request as CEL values, in the version of the rule   subject.go
//	evaluate  match conditions, validations or mutations, within Kubernetes' budgets    evaluate.go
//	act       reject, warn, annotate; or patch                                   validating.go, mutating.go, patch.go
//
// An error of configuration or evaluation rejects the request or is ignored, as the policy's
// failurePolicy says. Order, messages, reasons and codes are those of kube-apiserver 1.37
// (k8s.io/apiserver/pkg/admission/plugin/policy), with two differences: policies are evaluated in
// the order of their names, where Kubernetes has no order; and a policy that mutates another
// version of the object than the policy before it sees that one's changes.
//
// Policies from files come first. They are put in effect by [Policies.UseValidating] and
// [Policies.UseMutating]. Policies and their bindings are only subject to policies from files, and
// reviews of authentication and authorization to none.
//
// # Goroutines and locks
//
// All types are safe for concurrent use. Requests share a set until there is a newer one; a mutex
// is held while that is built. Without policies a request costs a few atomic loads. The package
// starts no goroutine except that of [Policies.CheckTypes].
package policy

import (
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Policies are the policies of a store. [New] creates them.
type Policies struct {
	store      *resource.Store
	authorizer authz.Authorizer
	validating *source
	mutating   *source
	metrics    *Metrics
}

// New returns the policies of a store. The authorizer answers the authorization checks of
// expressions.
func New(store *resource.Store, by authz.Authorizer) *Policies {
	return &Policies{
		store:      store,
		authorizer: by,
		metrics:    newMetrics(),
		validating: newSource(store, "validatingadmissionpolicies", "validatingadmissionpolicybindings", readValidating, readValidatingBinding),
		mutating:   newSource(store, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", readMutating, readMutatingBinding),
	}
}

// UseValidating puts ValidatingAdmissionPolicies and their bindings from files in effect, sorted by
// name, in place of those before. They are valid objects of v1 without parameters.
func (p *Policies) UseValidating(policies, bindings []resource.Tree) error {
	return p.validating.use(policies, bindings)
}

// UseMutating is UseValidating for MutatingAdmissionPolicies.
func (p *Policies) UseMutating(policies, bindings []resource.Tree) error {
	return p.mutating.use(policies, bindings)
}

// ofReviews reports whether a resource is exempt from all policies: without it an administrator
// could not undo one.
func ofReviews(gr schema.GroupResource) bool {
	switch gr.Group {
	case "authentication.k8s.io":
		return gr.Resource == "tokenreviews" || gr.Resource == "selfsubjectreviews"
	case "authorization.k8s.io":
		switch gr.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}

// ofPolicies reports whether a resource is that of policies or bindings, which are exempt from the
// policies in the store for the same reason.
func ofPolicies(gr schema.GroupResource) bool {
	if gr.Group != admissionv1.GroupName {
		return false
	}
	switch gr.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}
