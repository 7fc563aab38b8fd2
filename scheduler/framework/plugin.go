package framework

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// MaxNodeScore and MinNodeScore are the limits of the scores of a plugin, after NormalizeScore.
const (
	MaxNodeScore int64 = 100
	MinNodeScore int64 = 0
)

// A Plugin has a name and implements interfaces of extension points. Their methods must not change
// the objects that they are called with. The pod has no spec.nodeName yet, except at PostBind
// perhaps.
type Plugin interface {
	// Name is the name of its factory in scheduler.Options.Plugins.
	Name() string
}

// A PreEnqueuePlugin holds pods back before they are tried for the first time, and after each
// event.
type PreEnqueuePlugin interface {
	Plugin
	// PreEnqueue returns a status that is not a success for a pod that is not to be tried yet. The
	// pod has no condition for that, and is considered again after an event of the plugin.
	PreEnqueue(ctx context.Context, pod *corev1.Pod) *Status
}

// A PreFilterPlugin prepares an attempt.
type PreFilterPlugin interface {
	Plugin
	// PreFilter is called with all nodes. A status that rejects the pod rejects all nodes; with Skip,
	// Filter of the same plugin is not called in this attempt. A result may limit the nodes.
	PreFilter(ctx context.Context, state *CycleState, pod *corev1.Pod, nodes []NodeInfo) (*PreFilterResult, *Status)
}

// A PreFilterResult limits the nodes of an attempt.
type PreFilterResult struct {
	// NodeNames are the nodes that are considered. Nil means all.
	NodeNames sets.Set[string]
}

// A FilterPlugin rejects nodes.
type FilterPlugin interface {
	Plugin
	// Filter is called for nodes that no other plugin has rejected. For preemption it is called again
	// with copies of nodes that lack pods, without another call of PreFilter: to reject a node by the
	// pods on it, look at those of node. UnschedulableAndUnresolvable means that the pod would not fit
	// without them either.
	Filter(ctx context.Context, state *CycleState, pod *corev1.Pod, node NodeInfo) *Status
}

// A PostFilterPlugin acts on a pod for which no node is feasible.
type PostFilterPlugin interface {
	Plugin
	// PostFilter is called with the statuses of the nodes by their names. Success means that the pod
	// can be scheduled later; Unschedulable that the next plugin is called. The messages of the
	// statuses are part of the condition of the pod.
	PostFilter(ctx context.Context, state *CycleState, pod *corev1.Pod, nodes map[string]*Status) (*PostFilterResult, *Status)
}

// A PostFilterResult is the effect of PostFilter on the pod. Nil changes nothing.
type PostFilterResult struct {
	// NominatedNodeName is the node that the pod is going to get; "" removes a nomination.
	NominatedNodeName string
}

// A PreScorePlugin prepares scores.
type PreScorePlugin interface {
	Plugin
	// PreScore is called with the feasible nodes. With Skip, Score of the same plugin is not called
	// in this attempt.
	PreScore(ctx context.Context, state *CycleState, pod *corev1.Pod, nodes []NodeInfo) *Status
}

// A ScorePlugin ranks feasible nodes.
type ScorePlugin interface {
	Plugin
	// Score returns how good a node is, from MinNodeScore to MaxNodeScore, or any number if the plugin
	// is a ScoreNormalizer.
	Score(ctx context.Context, state *CycleState, pod *corev1.Pod, node NodeInfo) (int64, *Status)
}

// A ScoreNormalizer is a ScorePlugin whose scores depend on each other. kube-scheduler's framework
// has this method in ScoreExtensions.
type ScoreNormalizer interface {
	ScorePlugin
	// NormalizeScore changes the scores of the plugin to numbers from MinNodeScore to MaxNodeScore.
	NormalizeScore(ctx context.Context, state *CycleState, pod *corev1.Pod, scores []NodeScore) *Status
}

// A NodeScore is the score of a node.
type NodeScore struct {
	Name  string
	Score int64
}

// A ReservePlugin keeps track of what pods take on nodes.
type ReservePlugin interface {
	Plugin
	// Reserve is called for the node that is chosen for a pod. A status that is not a success ends the
	// attempt.
	Reserve(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string) *Status
	// Unreserve is called if the pod does not get the node, in the reverse order of the plugins, for
	// each of them, even for those whose Reserve was not called.
	Unreserve(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string)
}

// A PermitPlugin permits, delays or rejects the binding of a pod.
type PermitPlugin interface {
	Plugin
	// Permit returns Wait and a time limit to delay the binding until WaitingPod.Allow; the limit is
	// at most 15 minutes, after which the pod is rejected.
	Permit(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string) (*Status, time.Duration)
}

// A PreBindPlugin does work that must be done before a pod is bound.
type PreBindPlugin interface {
	Plugin
	// PreBind may take long. A status that is not a success ends the attempt.
	PreBind(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string) *Status
}

// A BindPlugin binds pods.
type BindPlugin interface {
	Plugin
	// Bind makes nodeName the node of the pod, or returns Skip to leave that to the next plugin.
	Bind(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string) *Status
}

// A PostBindPlugin is informed about bound pods.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state *CycleState, pod *corev1.Pod, nodeName string)
}
