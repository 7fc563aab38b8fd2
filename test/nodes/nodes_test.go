// Package nodes tests controllers, scheduler and simulated nodes together.
package nodes

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func all(nodes int) kapok.Together {
	return kapok.Together{controllers.Options{}, scheduler.Options{}, simulated.Options{Nodes: nodes}}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
		},
	}}
}

func nodesOf(t *testing.T, env *kapoktest.Env) map[string]int {
	t.Helper()
	var pods corev1.PodList
	if err := env.Client().List(env.Context(), &pods, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, p := range pods.Items {
		counts[p.Spec.NodeName]++
	}
	return counts
}

// TestLife checks what a newcomer does: a Deployment becomes available, is rolled out, its pods
// leave a node that is drained, and move when a node fails.
func TestLife(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		web := deployment("web", 6)
		env.Create(web)
		available := func(after time.Duration, what string) {
			t.Helper()
			time.Sleep(after)
			env.Get(web)
			if s := web.Status; s.AvailableReplicas != 6 || s.UpdatedReplicas != 6 {
				t.Fatalf("%s: %+v", what, s)
			}
		}
		available(time.Minute, "created")
		if counts := nodesOf(t, env); counts["node-0"] != 2 || counts["node-1"] != 2 || counts["node-2"] != 2 {
			t.Errorf("pods are on %v", counts)
		}
		env.Update(web, func() { web.Spec.Template.Spec.Containers[0].Image = "web:2" })
		available(2*time.Minute, "rolled out")

		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		env.Get(node)
		env.Update(node, func() { node.Spec.Unschedulable = true })
		var pods corev1.PodList
		if err := env.Client().List(env.Context(), &pods, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName == "node-1" {
				eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
				if err := env.Client().SubResource("eviction").Create(env.Context(), &p, eviction); err != nil {
					t.Fatal(err)
				}
			}
		}
		available(2*time.Minute, "drained")
		if counts := nodesOf(t, env); counts["node-1"] != 0 {
			t.Errorf("pods are on %v, want none on node-1", counts)
		}

		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
		env.Get(node)
		env.Update(node, func() { metav1.SetMetaDataAnnotation(&node.ObjectMeta, simulated.NodeAnnotation, simulated.Down) })
		available(20*time.Minute, "node-2 has failed")
		if ready := nodesOf(t, env)["node-0"]; ready != 6 {
			t.Errorf("%d pods are on node-0, want 6", ready)
		}
	}, kapoktest.Controllers(all(3)))
}

// TestJobs checks a Job that succeeds, and one whose pods fail.
func TestJobs(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		job := func(name, simulation string) *batchv1.Job {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			j.Spec.BackoffLimit = new(int32(2))
			j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "work:1"}}}
			if simulation != "" {
				j.Spec.Template.Annotations = map[string]string{"kapok.dev/simulation": simulation}
			}
			return j
		}
		good, bad := job("good", ""), job("bad", `containers: {c: {run: 5s, exit: 3}}`)
		env.Create(good, bad)
		time.Sleep(10 * time.Minute)
		env.Get(good)
		env.Get(bad)
		if good.Status.Succeeded != 1 {
			t.Errorf("good: %+v", good.Status)
		}
		if bad.Status.Failed != 3 || len(bad.Status.Conditions) == 0 || bad.Status.Conditions[len(bad.Status.Conditions)-1].Reason != batchv1.JobReasonBackoffLimitExceeded {
			t.Errorf("bad: %+v", bad.Status)
		}
	}, kapoktest.Controllers(all(1)))
}

// TestStatefulSet checks that pods with claims get volumes of kapok.dev/local-path on their nodes.
func TestStatefulSet(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		labels := map[string]string{"app": "db"}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "db:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}},
		}}
		env.Create(set)
		time.Sleep(5 * time.Minute)
		env.Get(set)
		if set.Status.ReadyReplicas != 3 {
			var claims corev1.PersistentVolumeClaimList
			_ = env.Client().List(env.Context(), &claims)
			t.Errorf("%+v\n%+v", set.Status, claims.Items)
		}
	}, kapoktest.Controllers(kapok.Together{withDefaultClass(), scheduler.Options{}, simulated.Options{Nodes: 3}}))
}

func withDefaultClass() controllers.Options {
	var o controllers.Options
	o.LocalPath.Default = true
	return o
}
