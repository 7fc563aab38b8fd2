package endpointslice_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func intOrString(text string) intstr.IntOrString { return intstr.Parse(text) }

// ready creates a pod that is ready.
func ready(env *kapoktest.Env, name, ip string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
	env.Create(p)
	env.UpdateStatus(p, func() {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	return p
}

func web(selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// TestRefused checks that slices which the server refuses are tried again with growing pauses.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		app := map[string]string{"app": "web"}
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, web(app))
		ready(env, "p1", "10.0.0.1", app)
		controllertest.RunReadOnly(t, env, names...)
		if n := controllertest.Writes(env, 6*time.Hour); n == 0 || n > 100 {
			t.Errorf("%d writes in 6 hours", n)
		}
	})
}

// TestMostEndpoints checks that a slice has at most 100 endpoints, and Endpoints at most 1,000.
func TestMostEndpoints(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		app := map[string]string{"app": "web"}
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, web(app))
		for i := range 1003 {
			ready(env, fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), app)
		}
		controllertest.Run(t, env, names...)
		env.SettleFor(5 * time.Second)
		var list discoveryv1.EndpointSliceList
		if err := env.Client().List(env.Context(), &list, client.MatchingLabels{discoveryv1.LabelServiceName: "web"}); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, s := range list.Items {
			if len(s.Endpoints) > 100 {
				t.Errorf("%d endpoints in a slice", len(s.Endpoints))
			}
			total += len(s.Endpoints)
		}
		if total != 1003 || len(list.Items) != 11 {
			t.Errorf("%d slices with %d endpoints, want 11 with 1003", len(list.Items), total)
		}
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		env.Get(e)
		if len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 1000 || e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
			t.Errorf("Endpoints have %d subsets and annotations %v", len(e.Subsets), e.Annotations)
		}
		if n := controllertest.Writes(env, time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
	})
}

// TestLeftovers checks that Endpoints of a Service that was deleted while no controller ran are
// deleted, but not a lock of a leader election.
func TestLeftovers(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		left := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
		lock := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "lock", Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}}}
		env.Create(left, lock)
		controllertest.Run(t, env, names...)
		env.SettleFor(5 * time.Second)
		if env.Exists(left) || !env.Exists(lock) {
			t.Errorf("left exists: %t, lock exists: %t", env.Exists(left), env.Exists(lock))
		}
	})
}

// BenchmarkOnePodChanges measures the time from a change of a pod to that of its slice. Services
// are in one namespace, with ten pods each, and share one of the labels of their selectors.
func BenchmarkOnePodChanges(b *testing.B) {
	for _, services := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) { benchmark(b, services) })
	}
}

func benchmark(b *testing.B, services int) {
	env := kapoktest.Start(b)
	env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	var last *corev1.Pod
	for i := range services {
		labels := map[string]string{"app": fmt.Sprintf("app-%d", i), "env": "prod"}
		s := web(labels)
		s.Name, s.Spec.ClusterIP = fmt.Sprintf("web-%d", i), corev1.ClusterIPNone
		env.Create(s)
		for p := range 10 {
			last = ready(env, fmt.Sprintf("web-%d-%d", i, p), fmt.Sprintf("10.%d.%d.%d", i/250, i%250, p+1), labels)
		}
	}
	w, err := env.Client().Watch(b.Context(), &discoveryv1.EndpointSliceList{}, client.MatchingLabels{discoveryv1.LabelServiceName: fmt.Sprintf("web-%d", services-1)})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	controllertest.Run(b, env, "endpointslice", "endpoint")
	is := true
	await := func() {
		for event := range w.ResultChan() {
			for _, e := range event.Object.(*discoveryv1.EndpointSlice).Endpoints {
				if e.TargetRef.Name == last.Name && *e.Conditions.Ready == is {
					return
				}
			}
		}
	}
	await()
	time.Sleep(time.Second + time.Duration(services)*2*time.Millisecond) // the other slices are created
	for b.Loop() {
		is = !is
		env.UpdateStatus(last, func() {
			last.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[is]
		})
		await()
	}
}
