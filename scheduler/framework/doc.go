// Package framework has the interfaces of scheduler plugins that a Go program adds. They are those
// of kube-scheduler's framework, reduced to what a plugin needs.
//
//	type SameRack struct{}
//
//	func (SameRack) Name() string { return "SameRack" }
//
//	func (SameRack) Filter(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, n framework.NodeInfo) *framework.Status {
//		if rack := pod.Labels["rack"]; rack != "" && n.Node().Labels["rack"] != rack {
//			return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were in another rack")
//		}
//		return nil
//	}
//
// A plugin implements [Plugin] and the interfaces of the extension points at which it takes part. A
// [Factory] makes one for each profile of a scheduler; scheduler.Options.Plugins has the factories.
//
// # Attempts
//
// An attempt to schedule a pod runs PreFilter, Filter and, if no node is feasible, PostFilter; else
// PreScore, Score and NormalizeScore, unless only one node is feasible. Reserve and Permit are
// called for the chosen node. Until here, one attempt runs at a time, and plugins are called by one
// goroutine. Then WaitOnPermit, PreBind, Bind and PostBind, or Unreserve after a failure, run in a
// goroutine for each pod, concurrently with the attempts of other pods. All methods that are called
// in one attempt have the same [CycleState].
//
// At each extension point, the plugins of a program run after those of kube-scheduler, except that
// PostFilter and Bind follow the order of the configuration.
//
// # Failures
//
// A [Status] that is an error, a nil Status being success, fails the attempt: the pod has a
// condition with the reason SchedulerError and is retried after its backoff. A plugin that panics
// fails likewise. A plugin that rejects a pod should implement [EnqueueExtensions]: the pod is
// retried after events that may help it. A plugin that knows more calls Handle.Activate.
package framework
