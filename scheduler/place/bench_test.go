//go:build unix

package place

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkDecide places a pod on one of many nodes, and removes one, so that half as many pods as
// nodes remain: plain pods, also with an Extension that filters and scores, pods that keep away
// from each other, and pods that are spread over zones and hosts. The time of a decision must not
// grow with the number of nodes, except with an Extension, which is called for each of them.
// cpu-ns/op is processor time, which other processes do not change.
func BenchmarkDecide(b *testing.B) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	kinds := []struct {
		name string
		edit func(*corev1.Pod)
		by   Extension
	}{
		{name: "plain", edit: func(*corev1.Pod) {}},
		{name: "extended", edit: func(*corev1.Pod) {}, by: even{}},
		{name: "apart", edit: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: app, TopologyKey: corev1.LabelHostname},
			}}}
		}},
		{name: "spread", edit: func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: app},
				{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: app},
			}
		}},
	}
	for _, nodes := range []int{100, 1000, 5000, 15000} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("%s/nodes=%d", kind.name, nodes), func(b *testing.B) {
				c, profile := NewCluster(1), DefaultProfile()
				for i := range nodes {
					c.SetNode(newNode(fmt.Sprint("n", i), func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("z", i%3) }))
				}
				pods := make([]*corev1.Pod, nodes)
				for i := range pods {
					pods[i] = newTestPod(fmt.Sprint("p", i), kind.edit)
				}
				i := 0
				step := func() {
					p := pods[i%nodes]
					var d Decision
					if kind.by == nil {
						d = c.Place(p, profile)
					} else {
						d = c.PlaceWith(p, profile, kind.by)
					}
					if d.Node == "" {
						b.Fatal(d.Message())
					}
					c.Assume(p, d.Node)
					if i >= nodes/2 {
						c.RemovePod(pods[(i-nodes/2)%nodes].UID)
					}
					i++
				}
				for range nodes / 2 {
					step()
				}
				before := used(b)
				b.ReportAllocs()
				for b.Loop() {
					step()
				}
				b.ReportMetric(float64((used(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// even is an Extension that accepts all nodes and prefers those with an even number of pods.
type even struct{}

func (even) Begin([]*Node) (Limit, *Refusal) { return Limit{}, nil }

func (even) Filter(*Node) *Refusal { return nil }

func (even) Narrow(all []*Node) ([]*Node, map[string]*Refusal, error) { return all, nil, nil }

func (even) Score(nodes []*Node, totals []int64) error {
	for i, n := range nodes {
		totals[i] += int64(1 - len(n.Pods)%2)
	}
	return nil
}

func (even) Victims(all []Candidate) ([]Candidate, error) { return all, nil }

// used returns the processor time of the process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
