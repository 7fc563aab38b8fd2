package framework

import (
	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
)

// EnqueueExtensions is implemented by plugins that reject pods. Pods that a plugin without it has
// rejected are retried after any event of an object that the scheduler watches.
type EnqueueExtensions interface {
	Plugin
	// EventsToRegister returns the events after which pods are retried that the plugin has rejected.
	// It is called once.
	EventsToRegister() []ClusterEventWithHint
}

// A ClusterEventWithHint is a kind of events, and which of them help which pods.
type ClusterEventWithHint struct {
	// Resource is an empty object of the kind, such as &corev1.Node{}. It may be of any kind that the
	// scheduler's client can watch, including custom resources.
	Resource client.Object
	// Actions are the changes that count.
	Actions ActionType
	// QueueingHint filters events; nil lets all pass.
	QueueingHint QueueingHintFn
}

// A QueueingHintFn returns whether an event may make a pod schedulable that the plugin has
// rejected. before is nil for a new object, after for one that was deleted. It must not block, nor
// change the objects. It is called by the goroutine that runs attempts.
type QueueingHintFn func(pod *corev1.Pod, before, after client.Object) QueueingHint

// ActionType is a set of changes of objects.
type ActionType int

// The changes. An update of a node is an event if it changes metadata, spec, resources, images,
// declared features or the status of a condition, so heartbeats are none; one of a pod if it
// changes metadata, spec or the names of generated claims. A pod that has ended counts as deleted.
const (
	Add ActionType = 1 << iota
	Update
	Delete

	All = Add | Update | Delete
)

// QueueingHint is the result of a QueueingHintFn.
type QueueingHint int

const (
	// QueueSkip leaves the pod where it is.
	QueueSkip QueueingHint = iota
	// Queue retries the pod, after its backoff.
	Queue
)
