// Package place decides on which node a pod runs. It is the core of package scheduler: it has no
// goroutine and no client, and reads a clock only for pods with claims of devices, whose drivers
// have a time limit.
//
//	cluster := place.NewCluster()
//	cluster.SetNode(node)
//	decision := cluster.Place(pod, place.DefaultProfile())
//
// # How it decides
//
// Methods of a [Cluster] add nodes and pods, and what rules depend on besides them. A [Profile] is
// a list of plugins, which compile their rules for a pod (plugin.go). Filters select the feasible
// nodes, scores rank them: the rules, their order, their weights and the messages of their refusals
// are those of kube-scheduler. Unlike kube-scheduler, which evaluates a sample of the nodes if
// there are many, it evaluates all of them. Among nodes with equal scores, random numbers decide
// that the Cluster draws when nodes are added.
//
// For a pod without a feasible node, [Decision.Preempt] selects pods with lower priorities that are
// deleted in its favour (preempt.go): on copies of nodes, it removes pods and evaluates the rules
// again. Until the pod has its node, it is nominated for it (nominated.go): others are placed as if
// it were there already.
//
// An [Extension] takes part in one decision after the plugins of the profile: it filters and scores
// nodes, and selects among the candidates of a preemption (extension.go). It has the plugins of a
// program and the extenders behind it.
//
// # Cost
//
// Pods that do not differ in the fields that rules depend on are of one class, like those of a
// ReplicaSet. The verdicts on nodes are cached for each class, and computed again only when the
// node or its pods have changed; rules that depend on several nodes, such as spreading, cache a
// share for each node and a sum. Nodes that such rules do not distinguish form a group, a heap by
// score, and a decision compares the best node of each group (groups.go). So its time follows from
// the changes since the last one of its class, and from the number of groups: of domains such as
// zones, not of nodes. A label other than kubernetes.io/hostname with a value of its own on each
// node makes a group of each.
//
// # Goroutines and locks
//
// There are none: a Cluster belongs to one goroutine.
package place
