// Package kapok is a Kubernetes API server without the cluster, to be embedded in any program:
//
//	server, err := kapok.Start(ctx, kapok.Options{})
//	if err != nil {
//		return err
//	}
//	defer server.Stop()
//	clients, err := dynamic.NewForConfig(server.Config())
//
// # Connections
//
// Clients reach the same handler in two ways:
//
//   - [Server.Config] is for clients in the process. Their connections are in memory, and their
//     requests are those of the admin.
//   - [Options.Listen] opens a socket with TLS and HTTP/2. [Server.Kubeconfig] has the credentials
//     of the admin; [Options.Authentication] configures how other users authenticate.
//
// # Request path
//
// A request passes these packages in this order:
//
//	internal/server     starts and stops all of them
//	internal/transport  connections: pipes in the process, the socket with TLS
//	internal/endpoint   HTTP: request info, bodies, negotiation, discovery, streams
//	internal/authn      authenticates the request
//	internal/fairness   queues it
//	internal/authz      authorizes it
//	internal/audit      records it
//	internal/aggregate  forwards groups that other servers serve
//	internal/resource   the verbs: get, list, watch, create, update, patch, delete, deletecollection
//	internal/admission  changes or rejects writes: webhooks, policies, plugins
//	internal/kinds      the built-in kinds; internal/crd has the custom ones
//	internal/state      all objects and their history, as the fold of a journal
//	internal/journal    makes writes durable: pebble on a disk, etcd, or memory
//
// # Several servers
//
// A process can run any number of servers. They share nothing. A server owns its goroutines and
// connections, and [Server.Stop] waits for all of them.
//
// # Virtual time
//
// A server reads the clock through package time. Without a socket and a data directory it works in
// a testing/synctest bubble.
//
// In a bubble, end the server and its clients with one context, or end the clients first. Otherwise
// client-go may report errors through HandleError of k8s.io/apimachinery/pkg/util/runtime, which
// sleeps until a millisecond after the last error, or the start, of the process. On the clock of a
// bubble that is decades away, so the goroutine appears to hang. Tests that expect errors remove
// the sleep, the second of ErrorHandlers, in TestMain. Package kapoktest does all of this.
package kapok
