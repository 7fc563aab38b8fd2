package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}}},
		},
	}
}

func run(t testing.TB, env *kapoktest.Env) {
	m, err := controllers.New(env.Config(), controllers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

func describe(t *testing.T, env *kapoktest.Env) string {
	var b strings.Builder
	var pods corev1.PodList
	if err := env.Client().List(t.Context(), &pods, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%d pods;", len(pods.Items))
	var sets appsv1.ReplicaSetList
	if err := env.Client().List(t.Context(), &sets, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, rs := range sets.Items {
		fmt.Fprintf(&b, " %s %d/%d %s;", rs.Name, rs.Status.Replicas, *rs.Spec.Replicas, rs.Annotations["deployment.kubernetes.io/revision"])
	}
	return b.String()
}

// ready makes all pods ready.
func ready(t *testing.T, env *kapoktest.Env) {
	var pods corev1.PodList
	if err := env.Client().List(t.Context(), &pods, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
			continue
		}
		env.UpdateStatus(p, func() {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		})
	}
}

func TestRollout(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		d := web(4)
		env.Create(d)
		env.Settle()
		t.Log(describe(t, env))
		ready(t, env)
		env.Settle()
		env.Get(d)
		t.Logf("%+v", d.Status)
		env.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
		for range 12 {
			time.Sleep(time.Second)
			t.Log(describe(t, env))
			ready(t, env)
		}
		env.Settle()
		env.Get(d)
		t.Logf("%+v", d.Status)
		if d.Status.UpdatedReplicas != 4 || d.Status.Replicas != 4 || d.Status.AvailableReplicas != 4 {
			t.Errorf("status %+v", d.Status)
		}
	})
}
