// Package scheduler gives pods their nodes, as kube-scheduler does.
//
//	mgr, err := manager.New(cfg, manager.Options{})
//	...
//	err = scheduler.Options{}.Add(mgr)
//
// # Parts
//
// Package place decides where a pod runs: a function of nodes and pods. A queue (queue.go) says which pod is
// next: the one with the highest priority, and among equals the one that came first. A pod that no node can take
// waits until something happens that may help, and then, depending on how often it was tried, some seconds.
// The scheduler itself (scheduler.go, watch.go, bind.go) tells both what happens, and writes what was decided.
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
