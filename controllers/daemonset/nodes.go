package daemonset

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// byTarget is the index of DaemonSets by one condition that all their nodes meet: a name, or a
	// pair of a label; and by anyNode those without one.
	byTarget = "kapok.dev/daemon-target"
	anyNode  = "any"
	// byNode is the index of the pods of DaemonSets by node.
	byNode = "kapok.dev/daemon-node"
)

func indexNodes(m manager.Manager) error {
	targets := func(o client.Object) []string { return []string{targetOf(o.(*appsv1.DaemonSet))} }
	nodes := func(o client.Object) []string {
		if by := metav1.GetControllerOfNoCopy(o); by == nil || by.Kind != kind.Kind {
			return nil
		}
		if node, ok := nodeOf(o.(*corev1.Pod)); ok {
			return []string{node}
		}
		return nil
	}
	f := m.GetFieldIndexer()
	for _, err := range []error{
		f.IndexField(context.Background(), &appsv1.DaemonSet{}, byTarget, targets),
		f.IndexField(context.Background(), &corev1.Pod{}, byNode, nodes),
	} {
		if err != nil && !errors.Is(err, cache.ErrIndexExists) {
			return err
		}
	}
	return nil
}

func named(node string) string { return "name=" + node }

func labeled(key, value string) string { return "label:" + key + "=" + value }

// targetOf returns the condition by which a set is found. Of several pairs, the one with the
// longest value usually selects the fewest nodes.
func targetOf(set *appsv1.DaemonSet) string {
	spec := &set.Spec.Template.Spec
	if spec.NodeName != "" {
		return named(spec.NodeName)
	}
	target, longest := anyNode, -1
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if value := spec.NodeSelector[key]; len(value) > longest {
			target, longest = labeled(key, value), len(value)
		}
	}
	return target
}

// nodeEvents returns the handler of events of nodes.
func (r *reconciler) nodeEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
			r.changed(ctx, nil, e.Object.(*corev1.Node), q)
		},
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
			r.changed(ctx, e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node), q)
		},
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q handler.Queue) {
			r.changed(ctx, e.Object.(*corev1.Node), nil, q)
		},
	}
}

// changed requests the sets for which a node is something else than before; nil is a node that does
// not exist. A node that comes or goes also concerns the sets that have a pod there.
func (r *reconciler) changed(ctx context.Context, before, after *corev1.Node, q handler.Queue) {
	if before != nil && after != nil && maps.Equal(before.Labels, after.Labels) && equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		return // such as each heartbeat of a kubelet
	}
	for target := range targetsOf(before, after) {
		var sets appsv1.DaemonSetList
		if err := r.client.List(ctx, &sets, client.MatchingFields{byTarget: target}, client.UnsafeDisableDeepCopy); err != nil {
			return // the cache has ended
		}
		for _, set := range owned.Pointers(sets.Items) {
			t := templateOf(set)
			if was, is := t.onOptional(before), t.onOptional(after); was != is {
				q.Add(handler.RequestFor(set))
			}
		}
	}
	if before != nil && after != nil {
		return
	}
	node := after
	if node == nil {
		node = before
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.MatchingFields{byNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for _, p := range owned.Pointers(pods.Items) {
		if by := metav1.GetControllerOfNoCopy(p); by != nil {
			q.Add(handler.Request{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: by.Name}})
		}
	}
}

// targetsOf returns the conditions that a node meets in one of its states.
func targetsOf(states ...*corev1.Node) map[string]bool {
	all := map[string]bool{anyNode: true}
	for _, n := range states {
		if n == nil {
			continue
		}
		all[named(n.Name)] = true
		for key, value := range n.Labels {
			all[labeled(key, value)] = true
		}
	}
	return all
}

// onOptional is on for a node that may not exist.
func (t *template) onOptional(n *corev1.Node) fits {
	if n == nil {
		return fits{}
	}
	return t.on(n)
}
