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

// BenchmarkDecide places a pod on one of many nodes, and removes one, so that half as many pods as nodes remain:
// plain pods, pods that keep away from each other, and pods that are spread over zones and hosts. The time of a
// decision must not grow with the number of nodes. cpu-ns/op is processor time, which other processes do not change.
func BenchmarkDecide(b *testing.B) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	kinds := []struct {
		name string
		edit func(*corev1.Pod)
	}{
		{"plain", func(*corev1.Pod) {}},
		{"apart", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: app, TopologyKey: corev1.LabelHostname},
			}}}
		}},
		{"spread", func(p *corev1.Pod) {
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
					d := c.Place(p, profile)
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

// used returns the processor time of the process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
