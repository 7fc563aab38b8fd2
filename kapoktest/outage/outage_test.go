package outage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/kapoktest/outage"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var nodes = kapoktest.Controllers(kapok.Together{controllers.Options{}, scheduler.Options{}, simulated.Options{Nodes: 2}})

// deployed creates a Deployment, and returns a function that reads the number of its available
// pods.
func deployed(t *testing.T, env *kapoktest.Env, replicas int32) func() int32 {
	t.Helper()
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
		},
	}}
	env.Create(web)
	time.Sleep(time.Minute)
	available := func() int32 {
		env.Get(web)
		return web.Status.AvailableReplicas
	}
	if n := available(); n != replicas {
		t.Fatalf("%d pods are available, want %d", n, replicas)
	}
	return available
}

func podsOf(t *testing.T, env *kapoktest.Env) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := env.Client().List(env.Context(), &list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestFail lets containers exit: each failure is one restart, the second one after a back-off.
func TestFail(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		available := deployed(t, env, 3)
		pods := outage.Pods(t, env, "default", "app=web")
		pods.Fail(137)
		time.Sleep(time.Minute)
		if n := available(); n != 3 {
			t.Errorf("a minute after the first failure, %d pods are available, want 3", n)
		}
		pods.First(2).Fail(3)
		time.Sleep(5 * time.Second)
		if n := available(); n != 1 {
			t.Errorf("in the back-off after the second failure, %d pods are available, want 1", n)
		}
		time.Sleep(time.Hour)
		var codes []int32
		for _, p := range podsOf(t, env) {
			s := p.Status.ContainerStatuses[0]
			if s.State.Running == nil || s.LastTerminationState.Terminated == nil {
				t.Fatalf("pod %s: %+v", p.Name, s)
			}
			codes = append(codes, s.RestartCount, s.LastTerminationState.Terminated.ExitCode)
		}
		if want := []int32{2, 3, 2, 3, 1, 137}; len(codes) != len(want) || codes[0] != 2 || codes[1] != 3 || codes[3] != 3 || codes[4] != 1 || codes[5] != 137 {
			t.Errorf("restarts and exit codes: %v, want %v", codes, want)
		}
	}, nodes)
}

// TestUnready lets a pod be unready, and keeps what its annotation has.
func TestUnready(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		available := deployed(t, env, 2)
		first := podsOf(t, env)[0]
		env.Update(&first, func() {
			first.Annotations = map[string]string{simulated.SimulationAnnotation: `containers: {c: {logs: "hello"}, "*": {stop: 3s}}`}
		})
		one := outage.Pods(t, env, "default", "app=web").First(1)
		one.Unready()
		time.Sleep(time.Second)
		if n := available(); n != 1 {
			t.Errorf("%d pods are available, want 1", n)
		}
		one.Ready()
		time.Sleep(time.Second)
		if n := available(); n != 2 {
			t.Errorf("%d pods are available again, want 2", n)
		}
		env.Get(&first)
		text := first.Annotations[simulated.SimulationAnnotation]
		if !strings.Contains(text, "logs: hello") || !strings.Contains(text, "stop: 3s") || strings.Contains(text, "unready") {
			t.Errorf("the annotation is %q", text)
		}
	}, nodes)
}

// TestNodes lets nodes fail: pods move to another node after minutes, but not while a node flaps.
func TestNodes(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		deployed(t, env, 4)
		of := map[string]int{}
		count := func() map[string]int {
			of = map[string]int{}
			for _, p := range podsOf(t, env) {
				if p.DeletionTimestamp == nil {
					of[p.Spec.NodeName]++
				}
			}
			return of
		}
		if count()["node-0"] != 2 {
			t.Fatalf("the pods are on %v", of)
		}
		outage.Nodes(t, env, "node-0").Flap(3, 2*time.Minute, 2*time.Minute)
		if count()["node-0"] != 2 {
			t.Errorf("after the node has flapped, the pods are on %v", of)
		}
		outage.Nodes(t, env, "node-0").Stop()
		time.Sleep(2 * time.Minute)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
		env.Get(node)
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown {
				t.Errorf("the condition of the stopped node is %+v", c)
			}
		}
		time.Sleep(10 * time.Minute)
		if count()["node-1"] != 4 {
			t.Errorf("after the node has failed, the pods are on %v", of)
		}
	}, nodes)
}
