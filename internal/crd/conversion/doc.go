// Package conversion converts custom resources by a webhook, as their CustomResourceDefinition asks for.
//
// A [Webhook] is asked in a ConversionReview, of v1 or v1beta1, and its answer is believed in nothing that can be checked:
// that it answers this request, that it has as many objects as were sent, each in the wanted version and still the same
// object. Of metadata only labels and annotations are taken from it. The words of errors are those of
// k8s.io/apiextensions-apiserver, and a test holds the two side by side. Where kube-apiserver asks for each object of a list
// by itself, one call converts many here; an error names the first object's version and kind then.
//
// The package starts no goroutine and holds no lock: connections belong to the [webhook.Caller] in [Webhooks].
package conversion
