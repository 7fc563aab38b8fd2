// Package conversion converts custom resources by a webhook, as their CustomResourceDefinition
// configures it.
//
// A [Webhook] receives a ConversionReview, of v1 or v1beta1. Everything in its response that can be
// checked is checked: that it answers this request, that it has as many objects as were sent, and
// that each is the same object in the wanted version. Of its metadata only labels and annotations
// are used. Error messages are those of k8s.io/apiextensions-apiserver, and a test compares the
// two. Where kube-apiserver sends one request for each object of a list, one request converts many
// here; an error then names the version and kind of the first object.
//
// The package starts no goroutine and holds no lock: connections belong to the [webhook.Caller] in
// [Webhooks].
package conversion
