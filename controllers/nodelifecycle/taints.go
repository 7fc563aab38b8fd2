package nodelifecycle

import (
	"context"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pressures are the conditions from which a taint NoSchedule follows if they are true.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure:     corev1.TaintNodeMemoryPressure,
	corev1.NodeDiskPressure:       corev1.TaintNodeDiskPressure,
	corev1.NodePIDPressure:        corev1.TaintNodePIDPressure,
	corev1.NodeNetworkUnavailable: corev1.TaintNodeNetworkUnavailable,
}

// unscheduling are the keys of taints NoSchedule that belong to this controller.
var unscheduling = append(slices.Collect(maps.Values(pressures)),
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable)

// renamed are labels that follow others.
var renamed = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

func has(taints []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func without(taints []corev1.Taint, key string, effect corev1.TaintEffect) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func with(taints []corev1.Taint, key string, effect corev1.TaintEffect) []corev1.Taint {
	return append(slices.Clip(taints), corev1.Taint{Key: key, Effect: effect, TimeAdded: new(metav1.Now())})
}

// taint writes the taints and labels of a node that follow from the rest of it at once, and puts it
// into the queue of its zone for a taint that has to wait. With clear, it removes taints NoExecute.
func (r *reconciler) taint(ctx context.Context, n *corev1.Node, clear bool) error {
	taints := scheduling(n)
	ready := condition(n, corev1.NodeReady)
	want, other := evicting(ready)
	switch {
	case want != "" && !r.nodes.allLost() && !clear && has(taints, other, corev1.TaintEffectNoExecute):
		// It takes the place of the other one, which has waited.
		taints = without(taints, other, corev1.TaintEffectNoExecute)
		if !has(taints, want, corev1.TaintEffectNoExecute) {
			taints = with(taints, want, corev1.TaintEffectNoExecute)
		}
	case ready != nil && want == "" || clear || r.nodes.allLost():
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			taints = without(taints, key, corev1.TaintEffectNoExecute)
		}
	}
	if err := r.write(ctx, n, taints); err != nil {
		return err
	}
	r.nodes.cleared(n.Name)
	switch {
	case want == "":
		r.nodes.unwait(n.Name)
	case !has(taints, want, corev1.TaintEffectNoExecute):
		if zone, added := r.nodes.wait(n.Name); added {
			r.queue.AddAfter(zoneRequest(zone), pause)
		}
	}
	return nil
}

// scheduling returns the taints of a node with those NoSchedule that it should have.
func scheduling(n *corev1.Node) []corev1.Taint {
	var want []string
	for _, c := range n.Status.Conditions {
		switch key := pressures[c.Type]; {
		case key != "" && c.Status == corev1.ConditionTrue:
			want = append(want, key)
		case c.Type == corev1.NodeReady:
			if key, _ := evicting(&c); key != "" {
				want = append(want, key)
			}
		}
	}
	if n.Spec.Unschedulable {
		want = append(want, corev1.TaintNodeUnschedulable)
	}
	taints := n.Spec.Taints
	for _, key := range want {
		if !has(taints, key, corev1.TaintEffectNoSchedule) {
			taints = with(taints, key, corev1.TaintEffectNoSchedule)
		}
	}
	for _, key := range unscheduling {
		if !slices.Contains(want, key) && has(taints, key, corev1.TaintEffectNoSchedule) {
			taints = without(taints, key, corev1.TaintEffectNoSchedule)
		}
	}
	return taints
}

// swap gives a node a taint NoExecute in place of another one.
func (r *reconciler) swap(ctx context.Context, n *corev1.Node, want, other string) error {
	taints := with(without(n.Spec.Taints, other, corev1.TaintEffectNoExecute), want, corev1.TaintEffectNoExecute)
	return r.write(ctx, n, taints)
}

// write writes the taints of a node and the labels that follow from others, unless the node has
// changed meanwhile.
func (r *reconciler) write(ctx context.Context, n *corev1.Node, taints []corev1.Taint) error {
	changed := len(taints) != len(n.Spec.Taints)
	for _, t := range taints {
		changed = changed || !has(n.Spec.Taints, t.Key, t.Effect)
	}
	labels := map[string]string{}
	for from, to := range renamed {
		if value, ok := n.Labels[from]; ok {
			if is, ok := n.Labels[to]; !ok || is != value {
				labels[to] = value
			}
		}
	}
	if !changed && len(labels) == 0 {
		return nil
	}
	next := n.DeepCopy()
	maps.Copy(next.Labels, labels)
	next.Spec.Taints = taints
	patch := client.StrategicMergeFrom(n, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.client.Patch(ctx, next, patch))
}
