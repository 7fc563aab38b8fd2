// Package aggregate serves the groups and versions of other servers as part of this one: those
// whose APIService of apiregistration.k8s.io/v1 names a service.
//
//	aggregator, err := aggregate.Start(aggregate.Options{Store: store})
//	defer aggregator.Close()
//	...
//	if remote := aggregator.Load().Find(r.URL.Path); remote != nil {
//		remote.Serve(w, r, user)
//	}
//
// # Parts
//
//   - An [Aggregator] follows the APIServices and returns a [Set]: the group versions that other
//     servers serve, with their discovery documents. Every server has one. Options.Inside are such
//     servers in this process: they need no APIService that names a service, and give way to one.
//   - A [Remote] proxies requests, streams and upgrades included, on behalf of the user who sent
//     them.
//   - [StartProbes] probes the services and writes the condition Available of their APIServices;
//     [StartLocals] keeps an APIService for each group version that this server serves itself. Both
//     run on one server for all servers of a store.
//   - [Publish] writes to a config map the authorities with which other servers authenticate this
//     one and its users.
//
// # Promises
//
// The caller has authenticated and authorized the request. The user is sent in X-Remote headers,
// over a connection that is authenticated by the front proxy's client certificate; headers of the
// client that could be taken for them are removed. The path of the outgoing request is the one that
// was authorized. Redirects are rejected. Documents of other servers are bounded in size, and count
// only for the group versions that their APIServices name.
//
// Conditions, status codes and messages are those of k8s.io/kube-aggregator 1.37.
//
// # Goroutines and locks
//
// An Aggregator owns a goroutine that waits for changes of APIServices, and one for each service
// that an APIService names, which requests discovery documents once a minute. Probes own the same.
// Without an APIService that names a service no timer runs, and a request costs the load of a
// pointer. Close waits for all goroutines, and closes every connection. The Aggregator's one lock
// guards its maps and is never held during requests.
//
// In a testing/synctest bubble an open connection of the operating system keeps the clock from
// advancing: use Options.Dial with connections in memory there.
package aggregate
