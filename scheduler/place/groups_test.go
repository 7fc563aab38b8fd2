package place

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBest compares decisions by groups of nodes with a comparison of all nodes, while nodes and
// pods come, change and go: the choice and the number of feasible nodes must be the same.
func TestBest(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 0))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	selector := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": one("web", "db")}}
	}
	term := func() corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: selector(), TopologyKey: one(corev1.LabelHostname, corev1.LabelTopologyZone, "rack")}
	}
	kinds := make([]*corev1.Pod, 16)
	for i := range kinds {
		kinds[i] = newTestPod("kind", func(p *corev1.Pod) {
			p.Labels["app"] = one("web", "db")
			a := &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
			switch i % 8 {
			case 0:
				a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term()}
			case 1:
				a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term()}
			case 2:
				a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 1 + r.Int32N(100), PodAffinityTerm: term()}}
			case 3:
				a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 1 + r.Int32N(100), PodAffinityTerm: term()}}
			case 4, 5:
				for range 3 {
					p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
						MaxSkew: 1 + r.Int32N(2), TopologyKey: one(corev1.LabelHostname, corev1.LabelTopologyZone, "rack"), LabelSelector: selector(),
						WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(one("DoNotSchedule", "ScheduleAnyway")),
					})
				}
			}
			p.Spec.Affinity = a
		})
	}
	fresh := func(name string) *corev1.Node {
		return newNode(name, func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: one(name, name, name, fmt.Sprint("shared", r.IntN(8))), corev1.LabelTopologyZone: one("z1", "z2", "z3")}
			if r.IntN(3) > 0 {
				n.Labels["rack"] = one("r1", "r2")
			}
			if r.IntN(4) == 0 {
				n.Spec.Taints = []corev1.Taint{{Key: one("k", "l"), Effect: corev1.TaintEffect(one("PreferNoSchedule", "NoSchedule"))}}
			}
		})
	}
	c, profile := NewCluster(1), DefaultProfile()
	var pods []*corev1.Pod
	const nodes = 80 // many, so that decisions follow changes
	for i := range nodes {
		c.SetNode(fresh(fmt.Sprint("n", i)))
	}
	chosen := 0
	for i := range 4000 {
		switch name := fmt.Sprint("n", r.IntN(nodes)); r.IntN(60) {
		case 0:
			c.RemoveNode(name)
		case 1, 2, 3:
			c.SetNode(fresh(name))
		}
		for len(pods) > 0 && (len(pods) > 160 || r.IntN(3) == 0) {
			at := r.IntN(len(pods))
			c.RemovePod(pods[at].UID)
			pods[at] = pods[len(pods)-1]
			pods = pods[:len(pods)-1]
		}
		p := kinds[r.IntN(len(kinds))].DeepCopy()
		p.UID = newTestPod(fmt.Sprint("p", i)).UID
		k := c.classOf(p, profile)
		got, count := c.best(k)
		want, all := c.bestBeside(k, p)
		if got != want || count != all {
			t.Fatalf("step %d: %v of %d nodes, want %v of %d", i, got, count, want, all)
		}
		if want != nil {
			chosen++
			c.Assume(p, want.Name)
			pods = append(pods, p)
		}
	}
	if chosen < 1000 {
		t.Errorf("only %d pods had a feasible node", chosen)
	}
}
