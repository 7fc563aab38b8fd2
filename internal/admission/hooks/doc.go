// Package hooks calls the admission webhooks of MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations.
//
//	h := hooks.New(hooks.Options{State: st, Caller: caller, Authorizer: authorizer})
//	chain := admission.Chain{h.Mutating(), h.Validating()}
//
// # Promises
//
// A configuration takes effect with the first request after its write. Its webhooks are compiled
// when they change. Without webhooks a request costs one atomic load. Mutating webhooks are called
// one after another, in the order of the names of their configurations; each sees the changes of
// those before it, and is called again if it requests that and a later one changed the object.
// Validating webhooks are called concurrently. Each gets the object in the version that its rules
// name. No webhook is called for reviews of authentication and authorization. For configurations of
// webhooks and policies, only webhooks from files are called: a webhook that is down must not keep
// administrators from removing it. Configurations from files take effect with UseMutating and
// UseValidating, and before those in the state.
//
// Everything in a response that can be checked is checked: that it answers this request, and has
// only fields that webhooks of its kind may set. A patched object is decoded like the body of a
// request, against the schema of the kind. A failed call rejects the request, unless the
// failurePolicy is Ignore. Configurations that cannot be read reject all requests. Messages, codes,
// audit annotations and metrics are those of kube-apiserver 1.37, with two differences: warnings,
// annotations and rejections of concurrent webhooks are in the order of the webhooks instead of
// their responses, and audit annotations do not contain patches.
//
// # Goroutines and locks
//
// A request with several validating webhooks starts a goroutine for each but one, and waits for
// them. Configurations are compiled under the lock of [state.Derived]; no call is made under it.
package hooks
