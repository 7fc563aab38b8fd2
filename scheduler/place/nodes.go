package place

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// NodeName refuses all nodes but the one that a pod names.
type NodeName struct{}

// Name implements Plugin.
func (NodeName) Name() string { return "NodeName" }

// Compile implements Plugin.
func (p NodeName) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	name := pod.Object.Spec.NodeName
	if name == "" {
		return Rule{}, nil
	}
	no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match the requested node name"}, Final: true}
	return Rule{Filter: func(n *Node) *Refusal {
		if n.Name != name {
			return no
		}
		return nil
	}}, nil
}

// NodeUnschedulable refuses nodes with spec.unschedulable, unless the pod tolerates the taint of
// that.
type NodeUnschedulable struct{}

// Name implements Plugin.
func (NodeUnschedulable) Name() string { return "NodeUnschedulable" }

// Compile implements Plugin.
func (p NodeUnschedulable) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	taint := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if tolerates(pod.Object.Spec.Tolerations, taint) {
		return Rule{}, nil
	}
	no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) were unschedulable"}, Final: true}
	return Rule{Filter: func(n *Node) *Refusal {
		if n.Object.Spec.Unschedulable {
			return no
		}
		return nil
	}}, nil
}

// TaintToleration refuses nodes with taints NoSchedule or NoExecute that the pod does not tolerate,
// and prefers those with few taints PreferNoSchedule that it does not tolerate.
type TaintToleration struct{}

// Name implements Plugin.
func (TaintToleration) Name() string { return "TaintToleration" }

// Compile implements Plugin.
func (p TaintToleration) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	all := pod.Object.Spec.Tolerations
	var soft []corev1.Toleration
	for _, t := range all {
		if t.Effect == "" || t.Effect == corev1.TaintEffectPreferNoSchedule {
			soft = append(soft, t)
		}
	}
	no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) had untolerated taint(s)"}, Final: true}
	return Rule{
		Filter: func(n *Node) *Refusal {
			if untolerated(n.Object.Spec.Taints, all) {
				return no
			}
			return nil
		},
		Score: func(n *Node) (count int64) {
			for i := range n.Object.Spec.Taints {
				if t := &n.Object.Spec.Taints[i]; t.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(soft, t) {
					count++
				}
			}
			return count
		},
		Normalize: func(scores []int64) { normalize(scores, true) },
	}, nil
}

func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return scheduling.TolerationsTolerateTaint(klog.Background(), tolerations, taint, false)
}

// untolerated reports whether one of the taints keeps pods away that tolerate others.
func untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(tolerations, &taints[i]) {
			return true
		}
	}
	return false
}

// NodeAffinity refuses nodes that do not match the selector and the required affinity of a pod, and
// prefers those that match its preferred affinity.
type NodeAffinity struct {
	// Added is affinity that all pods have besides their own. Its terms must be valid.
	Added *corev1.NodeAffinity
}

// Name implements Plugin.
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Compile implements Plugin.
func (p NodeAffinity) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	var rule Rule
	spec := &pod.Object.Spec
	var required *corev1.NodeSelector
	var preferred []corev1.PreferredSchedulingTerm
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		required = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		preferred = spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if p.Added != nil {
		preferred = slices.Concat(p.Added.PreferredDuringSchedulingIgnoredDuringExecution, preferred)
	}
	if required != nil || spec.NodeSelector != nil {
		match := nodeaffinity.GetRequiredNodeAffinity(pod.Object)
		no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, Final: true}
		rule.Filter = func(n *Node) *Refusal {
			if ok, _ := match.Match(n.Object); !ok { // a term that cannot be parsed matches nothing
				return no
			}
			return nil
		}
	}
	if p.Added != nil && p.Added.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		match, err := nodeaffinity.NewNodeSelector(p.Added.RequiredDuringSchedulingIgnoredDuringExecution)
		no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"}, Final: true}
		own := rule.Filter
		rule.Filter = func(n *Node) *Refusal {
			switch {
			case err != nil || !match.Match(n.Object):
				return no
			case own == nil:
				return nil
			}
			return own(n)
		}
	}
	if required != nil {
		only, conflict := namedNodes(required.NodeSelectorTerms)
		if conflict {
			return rule, &Refusal{Plugin: p.Name(), Reasons: []string{"pod affinity terms conflict"}, Final: true}
		}
		rule.Only = only
	}
	if preferred != nil {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(preferred)
		if err != nil {
			return rule, &Refusal{Plugin: p.Name(), Reasons: []string{err.Error()}, Final: true}
		}
		rule.Score = func(n *Node) int64 { return terms.Score(n.Object) }
		rule.Normalize = func(scores []int64) { normalize(scores, false) }
	}
	return rule, nil
}

// namedNodes returns the names of the nodes that terms allow, nil if they do not name all of them,
// and whether they allow none.
func namedNodes(terms []corev1.NodeSelectorTerm) (names map[string]bool, conflict bool) {
	if len(terms) == 0 {
		return nil, false
	}
	names = map[string]bool{}
	for _, t := range terms {
		var ofTerm map[string]bool
		for _, r := range t.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			both := map[string]bool{}
			for _, v := range r.Values {
				if ofTerm == nil || ofTerm[v] {
					both[v] = true
				}
			}
			ofTerm = both
		}
		if ofTerm == nil {
			return nil, false
		}
		for name := range ofTerm {
			names[name] = true
		}
	}
	return names, len(names) == 0
}

// NodePorts refuses nodes with a pod that has one of the pod's ports of the node.
type NodePorts struct{}

// Name implements Plugin.
func (NodePorts) Name() string { return "NodePorts" }

// Compile implements Plugin.
func (p NodePorts) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	if len(pod.ports) == 0 {
		return Rule{}, nil
	}
	no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}
	return Rule{Filter: func(n *Node) *Refusal {
		for _, want := range pod.ports {
			if n.taken(want) {
				return no
			}
		}
		return nil
	}}, nil
}

// ImageLocality prefers nodes that have the images of a pod, the more so the larger these are and
// the more nodes have them.
type ImageLocality struct{}

// Name implements Plugin.
func (ImageLocality) Name() string { return "ImageLocality" }

// The sizes between which images make a difference: at least the first, at most the second of a
// container.
const (
	smallImages = 23 << 20
	largeImage  = 1000 << 20
)

// Compile implements Plugin.
func (ImageLocality) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	var names []string
	spec := &pod.Object.Spec
	for i := range spec.InitContainers {
		names = append(names, imageName(spec.InitContainers[i].Image))
	}
	for i := range spec.Containers {
		names = append(names, imageName(spec.Containers[i].Image))
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			names = append(names, imageName(image.Reference))
		}
	}
	known := false
	for _, name := range names {
		known = known || c.images[name] > 0
	}
	if !known {
		return Rule{}, nil // all nodes have the score 0
	}
	return Rule{Score: func(n *Node) int64 {
		var sum int64
		for _, name := range names {
			if size, has := n.images[name]; has {
				sum += int64(float64(size) * (float64(c.images[name]) / float64(c.count)))
			}
		}
		most := int64(largeImage * len(names))
		sum = min(max(sum, smallImages), most)
		return MaxScore * (sum - smallImages) / (most - smallImages)
	}}, nil
}
