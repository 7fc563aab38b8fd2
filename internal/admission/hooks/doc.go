// Package hooks asks the admission webhooks that MutatingWebhookConfigurations and ValidatingWebhookConfigurations name.
//
//	h := hooks.New(hooks.Options{State: st, Caller: caller, Authorizer: authorizer})
//	chain := admission.Chain{h.Mutating(), h.Validating()}
//
// # What it promises
//
// A configuration counts from the next request on after its write, and is compiled once a revision. Where there are none, a
// request is told so by one atomic load. Webhooks that mutate are asked one after another, in the order of the names of their
// configurations; each sees what those before it have done, and is asked once more if it wants that and somebody after it has
// changed the object. Webhooks that validate are asked all at once. Whoever is asked gets the object in the version that its
// rules name. Nobody is asked about the configurations of webhooks and policies, and about the reviews of who one is and what
// one may: a webhook that is down must not lock out who could repair it.
//
// An answer is believed in nothing that can be checked: that it answers this request, and is what a webhook of its kind may
// answer. A patch is applied and what comes of it read as the body of a request would be: the schema of the kind decides.
// What goes wrong with a call refuses the request, unless the webhook is one to be ignored then. Configurations that cannot be
// read refuse everything. Words, codes, audit annotations and metrics are those of kube-apiserver 1.37; what differs: warnings,
// annotations and refusals of webhooks that are asked at once come in the order of these, and not of their answers; patches are
// not among the audit annotations.
//
// # Goroutines and locks
//
// The package owns no goroutine but, for the time of a request, one for each but one of the webhooks that validate it. A lock
// makes sure that configurations are compiled once; no call is made under it.
package hooks
