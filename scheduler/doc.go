// Package scheduler binds pods to nodes, as kube-scheduler does.
//
//	mgr, err := manager.New(cfg, manager.Options{})
//	...
//	err = scheduler.Options{}.Add(mgr)
//
// # Parts
//
// Package place selects the node of a pod: a function of nodes and pods. A queue (queue.go) returns
// the next pod: the one with the highest priority, and among equals the oldest one. A pod that fits
// no node waits for an event that may make it schedulable, and then for a backoff that grows with
// the number of attempts. The scheduler itself (scheduler.go, watch.go, bind.go, preempt.go,
// devices.go) passes events to both, and writes the decisions.
//
// Plugins of the program (package framework) and extenders (package extender) take part in attempts
// to schedule pods: attempt.go has the choice of a node, permit.go and waiting.go what follows, and
// events.go the events after which pods are retried that they have rejected.
//
// # Promises
//
// A decision takes earlier decisions into account, even if the server has not confirmed their
// bindings yet. If the server rejects a binding, the pod is removed from the node and retried. The
// state of the scheduler is derived from the objects: a restart loses only the backoff of pods.
//
// # Goroutines and locks
//
// One goroutine, in Start, owns the queue and the state of package place. Handlers of events and
// bindings, which run in goroutines that Start waits for, send it functions to call (inbox.go); the
// lock of the inbox is not held while they run.
package scheduler
