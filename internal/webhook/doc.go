// Package webhook is how the server calls webhooks: where they are, how it trusts them, how long it waits.
//
//	caller := webhook.New(webhook.Options{Services: webhook.InState(st)})
//	defer caller.Close()
//	hook := webhook.NewHook(webhook.Config{URL: "https://localhost:9443/convert", CABundle: pem})
//	client, err := caller.Client(hook, codecs)
//	...
//	err = client.Post().Body(review).Do(ctx).Into(&answer)
//
// # What it promises
//
// Requests look as those of kube-apiserver do, and what goes wrong is said in the same words: both use the REST client of
// client-go, with a transport that is this package's own. Webhooks are reached over TLS, with HTTP/1.1 unless they are on
// this machine, and verified against the CA bundle, or what the system trusts if there is none. A service is expected to
// have a certificate for name.namespace.svc, wherever it is found. A call takes 30 seconds at most, connecting included, and
// an answer is cut off at 64 MiB, which Kubernetes does not do. Another thing differs on purpose: proxies that the
// environment names are not asked.
//
// # Services
//
// There is no cluster network, and so a service is found by what its objects say, the first that says anything:
//
//   - a Service of type ExternalName is at that name, and at the targetPort of its port if that is a number;
//   - an endpoint of its EndpointSlices or, where there are none, of its Endpoints that is ready;
//   - its clusterIP, unless it is None.
//
// A service that this process is itself, as Options.Inside says, needs no objects, no TLS and no certificate.
//
// # Goroutines and locks
//
// A Caller owns its connections, which are kept for later calls, and all that net/http runs for them. Close breaks off calls
// that are under way, waits for them, and closes every connection. Two locks, never held together, guard the known
// transports and the open connections.
//
// In a testing/synctest bubble a connection of the operating system that is open keeps the clock from moving: reach
// webhooks through Options.Inside or Options.Dial and connections in memory there.
package webhook
