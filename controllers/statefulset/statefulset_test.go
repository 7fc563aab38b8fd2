package statefulset_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func web(replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:0"}}}},
		},
	}
}

func run(t testing.TB, env *kapoktest.Env) {
	options := controllers.Options{Names: []string{"statefulset"}}
	options.Manager.Logger = logr.Discard() // refused requests are part of the tests
	m, err := controllers.New(env.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

func makeReady(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
}

// TestAtRest counts the writes of hours in which nothing changes.
func TestAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		set := web(2)
		set.Spec.MinReadySeconds = 5
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec()}}
		env.Create(set)
		for i := range 2 {
			time.Sleep(10 * time.Second)
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i)}}
			env.UpdateStatus(p, func() { makeReady(p) })
		}
		time.Sleep(time.Minute)
		if env.Get(set); set.Status.AvailableReplicas != 2 {
			t.Fatalf("status %+v", set.Status)
		}
		before := len(env.Writes())
		time.Sleep(12 * time.Hour)
		if writes := env.Writes()[before:]; len(writes) > 0 {
			t.Errorf("%d writes at rest: %v", len(writes), writes)
		}
	})
}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// TestRefused counts the writes of a set whose pods a quota refuses: attempts become rare. When the
// quota ends, the pods appear without a restart.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: "default"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		env.Create(quota)
		time.Sleep(time.Second)
		set := web(3)
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		env.Create(set)
		time.Sleep(time.Hour)
		before := len(env.Writes())
		time.Sleep(10 * time.Hour)
		if writes := env.Writes()[before:]; len(writes) > 10*20 {
			t.Errorf("%d writes in 10 hours, the last: %v", len(writes), writes[len(writes)-1])
		}
		env.Delete(quota)
		time.Sleep(20 * time.Minute)
		if env.Get(set); set.Status.Replicas != 3 {
			t.Errorf("status %+v", set.Status)
		}
	})
}
