package oracle

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// BenchmarkSchedulers compares kapok up --scheduler with kube-scheduler, kube-apiserver and etcd,
// all as processes that write to the same disk: pods that wait when the scheduler starts are bound.
// The rate is that between the first binding that the client sees and the last, and the processor
// time that of servers and scheduler from the scheduler's start on, without this client.
func BenchmarkSchedulers(b *testing.B) {
	klog.SetLogger(logr.Discard())
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, kind := range []struct {
		name string
		edit func(*corev1.Pod)
	}{
		{"plain", func(*corev1.Pod) {}},
		{"spread", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: app},
			}
		}},
		{"apart", func(p *corev1.Pod) {
			part := map[string]string{"part": p.Name[len(p.Name)-1:]}
			p.Labels["part"] = part["part"]
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: &metav1.LabelSelector{MatchLabels: part}, TopologyKey: corev1.LabelHostname},
			}}}
		}},
	} {
		for _, size := range []struct{ nodes, pods int }{{500, 1000}, {5000, 10000}} {
			for name, begin := range map[string]func(*testing.B) setting{"kapok": withKapok, "kubernetes": withKubeScheduler} {
				b.Run(fmt.Sprintf("%s/nodes=%d/pods=%d/%s", kind.name, size.nodes, size.pods, name), func(b *testing.B) {
					for range b.N {
						measureScheduler(b, begin(b), size.nodes, size.pods, kind.edit)
					}
				})
			}
		}
	}
}

// A setting is a server without a scheduler.
type setting struct {
	config *rest.Config
	pause  func()              // called when the pods exist
	start  func() *rest.Config // starts the scheduler, and the server if it does not run
}

func withKapok(b *testing.B) setting {
	binary, dir := buildKapok(b), b.TempDir()
	config, stop := runKapok(b, binary, dir, "--controllers=")
	return setting{config: config, pause: stop, start: func() *rest.Config {
		config, _ := runKapok(b, binary, dir, "--controllers=", "--scheduler")
		return config
	}}
}

func withKubeScheduler(b *testing.B) setting {
	dir := b.TempDir()
	config, stop, err := StartServer(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stop)
	return setting{config: config, pause: func() {}, start: func() *rest.Config {
		s, err := StartScheduler(config, dir, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Stop)
		return config
	}}
}

func measureScheduler(b *testing.B, in setting, nodes, pods int, edit func(*corev1.Pod)) {
	ctx := b.Context()
	connect := func(config *rest.Config) client.Client {
		config = rest.CopyConfig(config)
		config.QPS = -1
		c, err := client.New(config, client.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	c := connect(in.config)
	inParallel(b, nodes, func(i int) error {
		name := fmt.Sprint("n", i)
		capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("z", i%3)}}}
		if err := c.Create(ctx, n); err != nil {
			return err
		}
		n.Spec.Taints = nil // as the controller of nodes does when they are ready
		if err := c.Update(ctx, n); err != nil {
			return err
		}
		n.Status.Capacity, n.Status.Allocatable = capacity, capacity
		return c.Status().Update(ctx, n)
	})
	inParallel(b, pods, func(i int) error {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
			}}}},
		}
		edit(p)
		return c.Create(ctx, p)
	})
	in.pause()
	before := childrenTime(b)
	c = connect(in.start())
	// await returns when a list of one pod is empty, or not.
	await := func(selector client.ListOption, empty bool) time.Time {
		for until := time.Now().Add(20 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var list corev1.PodList
			if err := c.List(ctx, &list, selector, client.Limit(1)); err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			if (len(list.Items) == 0) == empty {
				return now
			}
			if now.After(until) {
				b.Fatal("pods have no node after 20 minutes")
			}
		}
	}
	first := await(client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "")}, false)
	last := await(client.MatchingFields{"spec.nodeName": ""}, true)
	b.ReportMetric(float64(pods)/last.Sub(first).Seconds(), "pods/s")
	b.ReportMetric(float64((childrenTime(b)-before).Microseconds())/float64(pods), "cpu-us/pod")
}

// inParallel calls do n times.
func inParallel(b *testing.B, n int, do func(i int) error) {
	var group sync.WaitGroup
	const workers = 16
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
}
