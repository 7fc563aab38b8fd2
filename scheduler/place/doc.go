// Package place decides on which node a pod runs. It is the core of package scheduler: it has no clock,
// no goroutine and no client.
//
//	cluster := place.NewCluster()
//	cluster.SetNode(node)
//	decision := cluster.Place(pod, place.DefaultProfile())
//
// # How it decides
//
// Methods of a [Cluster] add nodes and pods. A [Profile] is a list of plugins, which compile their rules for a
// pod (plugin.go). Filters say which nodes are feasible, scores say which of those are best: the rules, their
// order, their weights and the words of their refusals are those of kube-scheduler. Unlike kube-scheduler,
// which looks at a part of the nodes if there are many, all of them are looked at. Of several best
// nodes, one is chosen by numbers that the Cluster draws when nodes are added.
//
// # What it costs
//
// Pods that do not differ in what rules look at are of one class, like those of a ReplicaSet. What rules say of
// a node is kept for each class, and computed again only when the node or its pods have changed; rules that
// depend on several nodes, such as spreading, keep a share for each node and a sum. So a decision computes
// anew what changed since the last one of its class, and then compares numbers.
//
// # Goroutines and locks
//
// There are none: a Cluster belongs to one goroutine.
package place
