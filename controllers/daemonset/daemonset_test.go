package daemonset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func agent(name string, selector map[string]string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "c", Image: "agent:0"}}},
			},
		},
	}
}

// createNode creates a node without the taint that the server gives to new ones.
func createNode(env *kapoktest.Env, name string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	env.Create(n)
	env.Update(n, func() { n.Spec.Taints = nil })
	return n
}

func podsOf(t *testing.T, env *kapoktest.Env) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := env.Client().List(env.Context(), &list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func makeReady(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
}

// TestAtRest counts the writes of hours in which nothing changes but the heartbeats of nodes.
func TestAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		n := createNode(env, "a", nil)
		set := agent("agent", nil)
		set.Spec.MinReadySeconds = 5
		env.Create(set, agent("nowhere", map[string]string{"is": "absent"}))
		time.Sleep(10 * time.Second)
		for _, p := range podsOf(t, env) {
			env.UpdateStatus(&p, func() { makeReady(&p) })
		}
		time.Sleep(time.Minute)
		if env.Get(set); set.Status.NumberAvailable != 1 {
			t.Fatalf("status %+v", set.Status)
		}
		if n := controllertest.Writes(env, 12*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
		for range 10 {
			env.UpdateStatus(n, func() {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
			})
			if n := controllertest.Writes(env, time.Minute); n > 0 {
				t.Errorf("%d writes after a heartbeat", n)
			}
		}
	})
}

// TestRefused counts the writes of a set whose pods a quota refuses: attempts become rare. When the
// quota ends, the pods appear without a restart.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		for i := range 3 {
			createNode(env, fmt.Sprint("n", i), nil)
		}
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: "default"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		env.Create(quota)
		time.Sleep(time.Second)
		set := agent("agent", nil)
		env.Create(set)
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, 10*time.Hour); n == 0 || n > 10*20 {
			t.Errorf("%d writes in 10 hours", n)
		}
		env.Delete(quota)
		time.Sleep(20 * time.Minute)
		if env.Get(set); set.Status.CurrentNumberScheduled != 3 {
			t.Errorf("status %+v", set.Status)
		}
	})
}

// TestReadOnly counts the writes of a controller that may not write.
func TestReadOnly(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "daemonset")
		createNode(env, "a", nil)
		env.Create(agent("agent", nil))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, 10*time.Hour); n == 0 || n > 10*20 {
			t.Errorf("%d writes in 10 hours", n)
		}
	})
}

// TestRejectedByNode counts the pods of a day on a node that rejects each of them at once: there is
// a new one every fifteen minutes in the end.
func TestRejectedByNode(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		createNode(env, "a", nil)
		env.Create(agent("agent", nil))
		env.Settle()
		seen := map[string]time.Time{}
		began := time.Now()
		for time.Since(began) < 24*time.Hour {
			for _, p := range podsOf(t, env) {
				if p.Status.Phase == corev1.PodPending {
					seen[p.Name] = time.Now()
					env.UpdateStatus(&p, func() { p.Status.Phase = corev1.PodFailed })
				}
			}
			time.Sleep(5 * time.Second)
		}
		// Ten pauses double from one second on, then there is one in 15 minutes. Each begins up to five
		// seconds late.
		if n := len(seen); n < 100 || n > 108 {
			t.Errorf("%d pods in a day", n)
		}
	})
}

// TestNodeConcerns counts the reconciles after changes of a node: only sets for which it becomes
// something else have any. A reconcile of a set whose pods change is followed by another, for their
// events.
func TestNodeConcerns(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		registry := prometheus.NewRegistry()
		o := controllers.Options{Names: []string{"daemonset"}}
		o.Manager.Metrics.Registry = registry
		o.Manager.Logger = logr.Discard()
		m, err := controllers.New(env.Config(), o)
		if err != nil {
			t.Fatal(err)
		}
		env.Go(m.Start)
		n := createNode(env, "a", map[string]string{"disk": "hdd"})
		absent := agent("absent", nil)
		absent.Spec.Template.Spec.NodeName = "b"
		env.Create(agent("all", nil), agent("ssd", map[string]string{"disk": "ssd"}), absent)
		for i := range 20 {
			env.Create(agent(fmt.Sprint("other-", i), map[string]string{"is": fmt.Sprint(i)}))
		}
		env.Settle()
		for _, step := range []struct {
			name   string
			change func()
			most   int // reconciles
			want   string
		}{
			{"another label", func() { n.Labels["zone"] = "z" }, 0, "all"},
			{"a label that a set selects", func() { n.Labels["disk"] = "ssd" }, 6, "all ssd"},
			{"a label that it does not select", func() { n.Labels["disk"] = "hdd" }, 6, "all"},
			{"a taint that repels pods", taint(n, "k", corev1.TaintEffectNoExecute), 6, ""},
			{"another such taint", taint(n, "l", corev1.TaintEffectNoExecute), 0, ""},
			{"no taint", func() { n.Spec.Taints = nil }, 6, "all"},
			{"a taint that pods tolerate", taint(n, corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), 0, "all"},
			{"a taint of no effect", taint(n, "k", corev1.TaintEffectPreferNoSchedule), 0, "all"},
		} {
			before := reconciles(t, registry)
			env.Update(n, step.change)
			env.Settle()
			did := reconciles(t, registry) - before
			if did > step.most || step.most > 0 && did == 0 {
				t.Errorf("%s: %d reconciles, at most %d are needed", step.name, did, step.most)
			}
			var sets []string
			for _, p := range podsOf(t, env) {
				sets = append(sets, p.Labels["app"])
			}
			slices.Sort(sets)
			if got := strings.Join(sets, " "); got != step.want {
				t.Errorf("%s: the node has pods of %q, want %q", step.name, got, step.want)
			}
		}
	})
}

func taint(n *corev1.Node, key string, effect corev1.TaintEffect) func() {
	return func() { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// reconciles returns how many there have been.
func reconciles(t *testing.T, registry *prometheus.Registry) (n int) {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range family.GetMetric() {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	if n == 0 {
		t.Fatal("no reconcile is counted")
	}
	return n
}

// TestStatusOfTaintedNode checks that the status follows a taint that keeps new pods away and lets
// the present one run, and a node that goes: Kubernetes leaves it as it is until something else
// changes.
func TestStatusOfTaintedNode(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		n := createNode(env, "a", nil)
		createNode(env, "b", nil)
		set := agent("agent", nil)
		env.Create(set)
		env.Settle()
		env.Update(n, taint(n, "k", corev1.TaintEffectNoSchedule))
		env.Settle()
		if env.Get(set); set.Status.DesiredNumberScheduled != 1 || set.Status.NumberMisscheduled != 1 {
			t.Errorf("with a taint: %+v", set.Status)
		}
		env.Delete(n)
		env.Settle()
		if env.Get(set); set.Status.DesiredNumberScheduled != 1 || set.Status.NumberMisscheduled != 0 {
			t.Errorf("without the node: %+v", set.Status)
		}
		if pods := podsOf(t, env); len(pods) != 1 {
			t.Errorf("%d pods, one is for a node that has gone", len(pods))
		}
	})
}

// TestSurgeWithoutNode checks that an update goes on while a pod of a node that has gone exists.
func TestSurgeWithoutNode(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		n := createNode(env, "a", nil)
		createNode(env, "b", nil)
		set := agent("agent", nil)
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
		env.Create(set)
		env.Settle()
		for _, p := range podsOf(t, env) {
			to := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeOf(&p)}}
			if err := env.Client().SubResource("binding").Create(env.Context(), &p, to); err != nil {
				t.Fatal(err)
			}
			env.UpdateStatus(&p, func() { makeReady(&p) })
		}
		env.Delete(n)
		env.Update(set, func() { set.Spec.Template.Spec.Containers[0].Image = "agent:1" })
		env.Settle()
		images := map[string]int{}
		for _, p := range podsOf(t, env) {
			images[nodeOf(&p)+" "+p.Spec.Containers[0].Image]++
		}
		if images["b agent:1"] != 1 || images["b agent:0"] != 1 {
			t.Errorf("the pods are %v, want a new one beside the old one of b", images)
		}
	})
}

// TestManyNodes checks that a set gets more pods than one reconcile creates.
func TestManyNodes(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "daemonset")
		for i := range 300 {
			createNode(env, fmt.Sprint("n", i), nil)
		}
		set := agent("agent", nil)
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))}
		env.Create(set)
		env.Settle()
		if env.Get(set); set.Status.CurrentNumberScheduled != 300 || set.Status.UpdatedNumberScheduled != 300 {
			t.Errorf("%+v", set.Status)
		}
		env.Update(set, func() { set.Spec.Template.Spec.Containers[0].Image = "agent:1" })
		env.Settle()
		if env.Get(set); set.Status.CurrentNumberScheduled != 300 || set.Status.UpdatedNumberScheduled != 300 {
			t.Errorf("after an update: %+v", set.Status)
		}
		if pods := podsOf(t, env); len(pods) != 300 {
			t.Errorf("%d pods", len(pods))
		}
	})
}
