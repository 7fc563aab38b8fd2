// Package scheduler gives pods their nodes, as kube-scheduler does.
//
//	mgr, err := manager.New(cfg, manager.Options{})
//	...
//	err = scheduler.Options{}.Add(mgr)
//
// # Parts
//
// Package place selects the node of a pod: a function of nodes and pods. A queue (queue.go) returns the next
// pod: the one with the highest priority, and among equals the oldest one. A pod that fits no node waits for an
// event that may make it schedulable, and then for a backoff that grows with the number of attempts. The
// scheduler itself (scheduler.go, watch.go, bind.go) passes events to both, and writes the decisions.
//
// # Promises
//
// A pod is decided on while the pods that have got nodes before count on these, although the server may not
// have confirmed it yet. A binding that the server refuses is forgotten, and the pod is tried again. What the
// scheduler knows follows from the objects: a restart loses nothing but pauses.
//
// # Goroutines and locks
//
// One goroutine, in Start, owns the queue and what place knows. Handlers of events and bindings, which run
// in goroutines that Start waits for, hand it functions to call (inbox.go); the lock of the inbox is not
// held while they run.
package scheduler
