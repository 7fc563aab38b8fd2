package daemonset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// generationLabel is the label of pods with the generation of the template.
const generationLabel = "pod-template-generation"

// always are the taints that each pod tolerates: a DaemonSet acts for its node also when there is
// something wrong with the node.
var always = []corev1.Toleration{
	tolerationOf(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
	tolerationOf(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
	tolerationOf(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
	tolerationOf(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
	tolerationOf(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
	tolerationOf(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
}

// withoutNetwork is an additional toleration of pods in the network of the node.
var withoutNetwork = tolerationOf(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)

func tolerationOf(taint string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: effect}
}

// tolerationsOf returns the tolerations of a set's pods. Those of its template that have a limit of
// time lose it, if the pods always tolerate the taint.
func tolerationsOf(spec *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(spec.Tolerations)
	add := func(t corev1.Toleration) {
		has := false
		for i := range all {
			if all[i].MatchToleration(&t) {
				all[i], has = t, true
			}
		}
		if !has {
			all = append(all, t)
		}
	}
	for _, t := range always {
		add(t)
	}
	if spec.HostNetwork {
		add(withoutNetwork)
	}
	return all
}

// newPod returns the pod for a node as it is to be created.
func (o *round) newPod(node string) *corev1.Pod {
	p := pod.FromTemplate(&o.set.Spec.Template, o.set, *metav1.NewControllerRef(o.set, kind))
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if o.generation != "" {
		p.Labels[generationLabel] = o.generation
	}
	p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = o.hash
	p.Spec.Tolerations = tolerationsOf(&p.Spec)
	p.Spec.Affinity = bound(p.Spec.Affinity, node)
	return p
}

// bound returns an affinity that requires a node, in place of what it required. The node fits that:
// the scheduler need not find out again.
func bound(a *corev1.Affinity, node string) *corev1.Affinity {
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	isNode := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{isNode}}},
	}
	return a
}

// nodeOf returns the node of a pod, or the one that its affinity requires if it has none yet.
func nodeOf(p *corev1.Pod) (node string, ok bool) {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName, true
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				if len(f.Values) != 1 {
					return "", false
				}
				return f.Values[0], true
			}
		}
	}
	return "", false
}

// sync creates pods on nodes, and deletes pods. It goes on with the deletions after an error.
func (o *round) sync(ctx context.Context, nodes []string, pods []*corev1.Pod) error {
	return errors.Join(o.create(ctx, nodes[:min(len(nodes), burst)]), o.delete(ctx, pods[:min(len(pods), burst)]))
}

// create creates pods: one at first, and twice as many at once after each batch that succeeds. A
// set whose pods are refused, by a quota for example, causes few requests and events that way.
func (o *round) create(ctx context.Context, nodes []string) error {
	var next atomic.Int32
	return pod.SlowStart(len(nodes), func() error {
		p := o.newPod(nodes[next.Add(1)-1])
		switch err := o.client.Create(ctx, p); {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil // any further creation would fail, too, until the set itself is deleted
		case err != nil:
			o.events.Eventf(o.set, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
			return err
		}
		o.events.Eventf(o.set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", p.Name)
		return nil
	})
}

// delete deletes pods, all at once.
func (o *round) delete(ctx context.Context, pods []*corev1.Pod) error {
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, p := range pods {
		all.Go(func() { errs[i] = o.deleteOne(ctx, p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (o *round) deleteOne(ctx context.Context, p *corev1.Pod) error {
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	switch err := o.client.Delete(ctx, gone); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		o.events.Eventf(o.set, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	o.events.Eventf(o.set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
	return nil
}
