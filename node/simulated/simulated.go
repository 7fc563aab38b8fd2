// Package simulated runs simulated nodes. Pods on them behave as pods on kubelets do, without
// containers: a pod runs as soon as it is bound, and its further phases follow from its spec.
//
//	err := simulated.Options{Nodes: 1000}.Add(mgr)
//
// A node is simulated if it has the annotation kapok.dev/node: simulated, which the nodes of
// Options.Nodes get, or KWOK's kwok.x-k8s.io/node: fake. Such a node has a status, a Lease in
// kube-node-lease and heartbeats. Pods of other nodes are ignored.
//
// # How containers behave
//
// By default, images are present, containers start without delay, become ready as soon as their
// probes allow, and stop immediately. Init containers complete immediately, and the containers of a
// Job's pods after a second. The annotation kapok.dev/simulation of a pod changes this, for each
// container by its name, or for all of them by "*":
//
//	kapok.dev/simulation: |
//	  containers:
//	    web: {pull: 2s, ready: 5s}
//	    "*": {run: 30s, exit: 1, times: 2}
//
//	pull: 2s          the time for which the image is pulled before the first start
//	pullError: true   the image cannot be pulled
//	start: 1s         the time between pull and start
//	ready: 5s         the time after a start at which the container responds to its probes
//	unready: true     the container never responds to its startup and readiness probes
//	unhealthy: 20s    the time after a start at which its liveness and readiness probes begin to fail
//	run: 30s          the time after which it ends, 1s by default; or forever
//	exit: 1           its exit code then
//	reason: OOMKilled its reason then; the exit code is then not 0 by default
//	message: "..."    its message then, or that of the failed pull
//	times: 2          it ends this way at its first runs only
//	stop: 3s          the time from the signal TERM to its end
//	logs: "text"      what it writes when it starts; a line that says so by default
//	exec: {"ls /": "bin\netc\n"}  what commands write, by their words, or by "*" for all others
//	cpu: 300m         the CPU that it uses; by default a tenth of its request, 1m without one
//	memory: 100Mi     the memory that it uses; by default half of its request, 16Mi without one
//	usage: [{after: 2m, cpu: 900m}]  changes of these, at times after a start
//
// A pod with this annotation whose restartPolicy is not Always completes after a second, as that of
// a Job, unless the annotation sets another time. A Warning event names errors of the annotation,
// and the pod behaves as if it had none.
//
// # Differences from the kubelet
//
// The specification is the kubelet of Kubernetes 1.37: conditions, states of containers, reasons,
// messages, events, backoff, probes, the order of init containers and sidecars, restart policies,
// deadlines, resizes, graceful deletion, and waiting for ConfigMaps, Secrets, claims of volumes and
// of resources. The differences:
//
//   - Times have the resolution of the API, one second.
//   - Changes without a delay between them are one write: a pod without problems takes one write. A
//     resize is never in progress, and it is infeasible or done, not deferred.
//   - Normal events are limited to Options.EventsPerSecond for all nodes together. A failing
//     readiness probe is one event, not one for each failure.
//   - Pods do not wait for kube-root-ca.crt, for the attachment of volumes, and for other pods of
//     the node: no pod is rejected for lack of resources.
//   - A restart rule with the action RestartAllContainers restarts the container alone.
//   - The status of a container has no user, and its volumes of images have no digests.
//
// Pods of a deleted node are not changed, and neither are those of a node with the annotation
// kapok.dev/node: down, which has no heartbeats.
//
// # State
//
// A look at a pod (look.go) is a function of the pod, the objects that it refers to, and the time:
// it has no clock, goroutine or client. Its only input from the past is the status of the pod, so
// that pods continue after a restart of the process.
//
// What pods use (usage.go) is a function of the pod and the time, too; Metrics serves it.
//
// The addresses in use (package podip), the objects for which pods wait (waiting.go), and the times
// at which Leases were renewed (node.go) are in memory. Each has its own lock, which is not held
// during a request or while another one is held. The goroutines are the workers of two controllers
// and the Runnables that write events, nodes and a role; the manager owns them.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/heartbeat"
	"github.com/kapok-dev/kapok/node/internal/metrics"
	"github.com/kapok-dev/kapok/node/internal/recorder"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// NodeAnnotation is the annotation of simulated nodes, with the value Simulated.
	NodeAnnotation = "kapok.dev/node"
	// Simulated is the value of NodeAnnotation of a node that runs pods.
	Simulated = "simulated"
	// Down is the value of NodeAnnotation of a simulated node that has failed: it sends no
	// heartbeats, and its pods do not change.
	Down = "down"

	kwokAnnotation = "kwok.x-k8s.io/node"
	kwokFake       = "fake"

	podWorkers = 16
	byNode     = "spec.nodeName"
)

// Options configure the simulated nodes. The zero value creates none, and runs those that other
// clients create.
type Options struct {
	// Nodes is the number of nodes to create: node-0, node-1, and so on. Existing nodes are not
	// changed.
	Nodes int
	// NamePrefix is the prefix of the names of created nodes. Default "node-".
	NamePrefix string
	// Allocatable are the resources of a node without a capacity in its status. Default: 32 CPUs,
	// 256Gi of memory, 110 pods, 1Ti of ephemeral storage.
	Allocatable corev1.ResourceList
	// Labels and Taints are those of created nodes, in addition to the labels of every node.
	Labels map[string]string
	Taints []corev1.Taint
	// LeaseDuration is the duration of Leases, in whole seconds. They are renewed four times in that
	// time. Default 40 s.
	LeaseDuration time.Duration
	// StatusInterval is the time between two heartbeats in the status of a node. Default 5 minutes.
	StatusInterval time.Duration
	// EventsPerSecond limits the Normal events of all nodes together, after a burst of twice as many.
	// Normal events beyond it are dropped, Warning events are not. Default 50, the limit of one
	// kubelet; negative: no limit.
	EventsPerSecond int
	// Yields reports whether another program changes the pods, or the status of the nodes. It is
	// called often, and from several goroutines. Default: none does. Leases are renewed in any case.
	Yields func(schema.GroupKind) bool
	// OnYields adds a function to call when the result of Yields has changed for a kind. Nil if it
	// never changes.
	OnYields func(changed func(schema.GroupKind))
	// Kubelet, if not nil, answers for the nodes.
	Kubelet *Kubelet
	// Answers are what Kubelet answers in place of the annotations of pods. Nil: none.
	Answers Answers
	// Metrics, if not nil, serves what the nodes and their pods use.
	Metrics *Metrics
	// Usage returns what a container that runs uses, nil if the annotation of the pod defines it. It
	// is called from several goroutines, and must not change the pod. Default: nil for all.
	Usage func(p *corev1.Pod, container string) corev1.ResourceList
}

// The kinds for which Options.Yields is asked.
var (
	podKind  = schema.GroupKind{Kind: "Pod"}
	nodeKind = schema.GroupKind{Kind: "Node"}
)

// complete fills in the defaults.
func (o Options) complete() Options {
	if o.NamePrefix == "" {
		o.NamePrefix = "node-"
	}
	if o.Allocatable == nil {
		o.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("32"),
			corev1.ResourceMemory:           resource.MustParse("256Gi"),
			corev1.ResourcePods:             resource.MustParse("110"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		}
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = 40 * time.Second
	}
	if o.StatusInterval == 0 {
		o.StatusInterval = 5 * time.Minute
	}
	if o.EventsPerSecond == 0 {
		o.EventsPerSecond = 50
	}
	if o.Yields == nil {
		o.Yields = func(schema.GroupKind) bool { return false }
	}
	return o
}

// Validate returns an error that names the first invalid field and its rule.
func (o Options) Validate() error {
	o = o.complete()
	if o.Nodes < 0 {
		return fmt.Errorf("option Nodes is %d: must not be negative", o.Nodes)
	}
	if problems := validation.IsDNS1123Subdomain(fmt.Sprint(o.NamePrefix, max(0, o.Nodes-1))); len(problems) > 0 {
		return fmt.Errorf("option NamePrefix is %q: %s", o.NamePrefix, strings.Join(problems, ", "))
	}
	for name, q := range o.Allocatable {
		if q.Sign() < 0 {
			return fmt.Errorf("option Allocatable[%s] is %s: must not be negative", name, q.String())
		}
	}
	if problems := metav1validation.ValidateLabels(o.Labels, field.NewPath("Labels")); len(problems) > 0 {
		return problems.ToAggregate()
	}
	for i, t := range o.Taints {
		if t.Key == "" || t.Effect == "" {
			return fmt.Errorf("option Taints[%d]: key and effect must be set", i)
		}
	}
	if o.LeaseDuration < 4*time.Second || o.LeaseDuration%time.Second != 0 {
		return fmt.Errorf("option LeaseDuration is %v: must be at least 4s, and whole seconds", o.LeaseDuration)
	}
	if o.StatusInterval < time.Second {
		return fmt.Errorf("option StatusInterval is %v: must be at least 1s", o.StatusInterval)
	}
	return nil
}

// Add adds the simulation to a manager.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.complete()
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byNode, func(obj client.Object) []string {
		return []string{obj.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	if o.Kubelet != nil {
		if o.Answers != nil {
			o.Kubelet.answers.Store(&o.Answers)
		}
		o.Kubelet.readers.Store(&readers{cached: m.GetClient(), live: m.GetAPIReader()})
	}
	if o.Metrics != nil {
		err := o.Metrics.Add(m, metrics.Source{Name: "simulated", Reader: m.GetClient(), Runs: Runs, Usage: func(p *corev1.Pod, now time.Time) []metrics.Container {
			return usageOf(p, now, o.Usage)
		}})
		if err != nil {
			return err
		}
	}
	events := recorder.New(m.GetClient(), m.GetLogger(), o.EventsPerSecond)
	if err := m.Add(events); err != nil {
		return err
	}
	if o.Nodes > 0 {
		if err := m.Add(&creator{options: o, client: m.GetClient()}); err != nil {
			return err
		}
	}
	beats := heartbeat.Options{
		Name: "simulated-nodes", Runs: Runs, Labels: usualLabels, Status: o.nodeStatus,
		Yields:        func() bool { return o.Yields(nodeKind) },
		LeaseDuration: o.LeaseDuration, StatusInterval: o.StatusInterval,
	}
	if err := beats.Add(m); err != nil {
		return err
	}
	return addPods(m, o, events)
}

// retries are the pauses after errors.
func retries(longest time.Duration) workqueue.RateLimiter[controller.Request] {
	return workqueue.ExponentialBackoff[controller.Request](10*time.Millisecond, longest)
}

// Runs reports whether a node is simulated, and runs.
func Runs(n *corev1.Node) bool {
	switch n.Annotations[NodeAnnotation] {
	case Simulated:
		return true
	case Down:
		return false
	}
	return n.Annotations[kwokAnnotation] == kwokFake
}

// partial returns an object for the response of a write of which only the metadata is needed.
func partial(kind string, version string, key client.ObjectKey) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}
