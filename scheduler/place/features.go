package place

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
)

// NodeDeclaredFeatures refuses nodes that do not declare a feature of kubelets that a pod needs.
type NodeDeclaredFeatures struct{}

// Name implements Plugin.
func (NodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatures" }

// Compile implements Plugin.
func (p NodeDeclaredFeatures) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	needs := featuresOf(pod.Object)
	if len(needs) == 0 {
		return Rule{}, nil
	}
	no := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match Pod's required features"}, Final: true}
	return Rule{Filter: func(n *Node) *Refusal {
		for _, feature := range needs {
			if !declares(n.Object, feature) {
				return no
			}
		}
		return nil
	}}, nil
}

// featuresOf returns the features that a pod needs of a kubelet of the version whose rules the
// scheduler has.
func featuresOf(p *corev1.Pod) []string {
	all := features.DefaultFramework
	set, err := all.InferForPodScheduling(&features.PodInfo{Spec: &p.Spec}, version.MajorMinor(1, 37))
	if err != nil || set.IsEmpty() {
		return nil // there is a version, so there is no error
	}
	names, _ := all.Unmap(set)
	return names
}

// featuresKey returns the part of the key of a class about features of kubelets.
func featuresKey(p *corev1.Pod) string { return strings.Join(featuresOf(p), " ") }

// declares reports whether a node declares a feature.
func declares(n *corev1.Node, feature string) bool {
	return slices.Contains(n.Status.DeclaredFeatures, feature)
}
