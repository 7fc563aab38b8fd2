// Package aggregate is how other servers serve groups and versions as if they were this one's: what an APIService of
// apiregistration.k8s.io/v1 with a service says.
//
//	aggregator, err := aggregate.Start(aggregate.Options{Store: store})
//	defer aggregator.Close()
//	...
//	if remote := aggregator.Load().Find(r.URL.Path); remote != nil {
//		remote.Serve(w, r, user)
//	}
//
// # What there is
//
//   - An [Aggregator] follows the APIServices and answers with a [Set]: which group versions other servers serve, and
//     what they say of them. Every server has one.
//   - A [Remote] passes requests on, streams and upgrades included, in the name of the user who sent them.
//   - [StartProbes] finds out which services answer, and says so in the status of their APIServices; [StartLocals] keeps
//     an APIService for each group version that is served here. One server does either for all of a store.
//   - [Publish] tells the other servers, in a config map, how to know this one and its users.
//
// # What it promises
//
// Who sends a request is known before it comes here, and is said in X-Remote headers, over a connection that shows the
// front proxy's client certificate. Nothing that a client sends can be mistaken for them. The path that goes out is the
// one that was judged. Redirects are refused. What other servers say of themselves is bounded in size and believed only
// as far as it is about the group versions that their APIServices name.
//
// Conditions, status codes and texts are those of k8s.io/kube-aggregator 1.37.
//
// # Goroutines and locks
//
// An Aggregator has a goroutine that waits for changes of APIServices, and one for each service that one of them names,
// which asks for discovery documents once a minute. Probes have the same. Without APIServices that name a service nothing
// wakes up, and a request costs a look at a pointer. Close waits for all, and closes every connection. The Aggregator's
// one lock is held for its maps only.
//
// In a testing/synctest bubble a connection of the operating system that is open keeps the clock from moving: reach
// services through Options.Dial and connections in memory there.
package aggregate
