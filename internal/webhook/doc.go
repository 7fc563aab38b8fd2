// Package webhook calls webhooks: it resolves their addresses, verifies their certificates, and
// bounds calls in time and size.
//
//	caller := webhook.New(webhook.Options{Services: webhook.InState(st)})
//	defer caller.Close()
//	hook := webhook.NewHook(webhook.Config{URL: "https://localhost:9443/convert", CABundle: pem})
//	client, err := caller.Client(hook, codecs)
//	...
//	err = client.Post().Body(review).Do(ctx).Into(&answer)
//
// # Promises
//
// Requests and error messages are those of kube-apiserver: both use the REST client of client-go,
// here with a transport of this package. Webhooks are reached over TLS, with HTTP/1.1 unless they
// are on this machine, and verified against the CA bundle, or the system's roots if there is none.
// A service must have a certificate for name.namespace.svc, whatever its address. A call takes 30
// seconds at most, connecting included, and a response has at most 64 MiB, a bound that Kubernetes
// does not have. Proxies that the environment names are not used, unlike in Kubernetes.
//
// # Services
//
// There is no cluster network, and so the address of a service comes from objects, the first of
// these that has one:
//
//   - a Service of type ExternalName: that name, and the targetPort of its port if that is a
//     number;
//   - a ready endpoint in its EndpointSlices or, if there are none, in its Endpoints;
//   - its clusterIP, unless it is None.
//
// A service of this process, as Options.Inside returns it, needs no objects, no TLS and no
// certificate.
//
// # Goroutines and locks
//
// A Caller owns its connections, which are kept for later calls, and the goroutines that net/http
// runs for them. Close cancels calls under way, waits for them, and closes every connection. Two
// locks, never held together, guard the cached transports and the open connections.
//
// In a testing/synctest bubble an open connection of the operating system keeps the clock from
// advancing: use Options.Inside or Options.Dial with connections in memory there.
package webhook
