// Package policy enforces admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, which say in CEL what may
// be written, and what is changed before it is.
//
//	p := policy.New(store, authorizer)
//	admission.Chain{..., p.Mutating(), ..., p.Readers(), p.Validating(), ...}
//
// # The way of a request
//
// A policy does something only where a binding names it. The policies and bindings that are stored become a set of compiled
// ones when a request comes in after one of them has changed (source.go), so that a write takes effect with the next
// request. The expressions of a policy are compiled when a request first matches it, once for each generation (compile.go).
//
//	match     is the request meant: rules, selectors (package match), of the policy and then of the binding
//	collect   the parameters of the binding, of any kind that is served            params.go
//	show      the object and the request, as CEL has them, in the version of the rule   subject.go
//	evaluate  match conditions, validations or mutations, within Kubernetes' budgets    evaluate.go
//	act       refuse, warn, annotate; or patch                                   validating.go, mutating.go, patch.go
//
// What cannot be configured or evaluated is refused or passed over as the policy's failurePolicy says. Order, messages, reasons and
// codes are those of kube-apiserver 1.37 (k8s.io/apiserver/pkg/admission/plugin/policy), but for two things: policies come in the
// order of their names, where Kubernetes has none, and one that mutates another version of the object than the one before it
// sees what that one did.
//
// Policies and their bindings are not subject to policies, nor are the reviews of authentication and authorization.
//
// # Concurrency
//
// All is safe for concurrent use. Requests share a set until there is a newer one; a mutex is held while one is made. Without
// policies a request costs a look at two marks and a pointer. The package starts no goroutine but those of [Policies.CheckTypes].
package policy

import (
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Policies are the policies of a store. Make them with [New].
type Policies struct {
	store      *resource.Store
	authorizer auth.Authorizer
	validating *source
	mutating   *source
}

// New returns the policies that are in a store. The authorizer answers those that ask in their expressions what a user may do.
func New(store *resource.Store, by auth.Authorizer) *Policies {
	return &Policies{
		store:      store,
		authorizer: by,
		validating: newSource(store, "validatingadmissionpolicies", "validatingadmissionpolicybindings", readValidating, readValidatingBinding),
		mutating:   newSource(store, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", readMutating, readMutatingBinding),
	}
}

// exempt says whether policies are not asked about a resource: there are some without which nobody could undo a policy.
func exempt(d *resource.Definition) bool {
	switch d.Group {
	case admissionv1.GroupName:
		return ofPolicies(d.GroupResource())
	case "authentication.k8s.io":
		return d.Plural == "tokenreviews" || d.Plural == "selfsubjectreviews"
	case "authorization.k8s.io":
		switch d.Plural {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}

// ofPolicies says whether a resource is one of policies or bindings.
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
