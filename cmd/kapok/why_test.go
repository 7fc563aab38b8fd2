package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhy checks the explanations of a Deployment whose pods a quota refuses, and of one of its
// pods.
func TestWhy(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")},
		}})
		labels := map[string]string{"app": "web"}
		env.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}},
			},
		}})
		time.Sleep(10 * time.Second)
		explained := func(kind, name string) string {
			c, err := client.New(env.Config(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			x := explanation{client: c, now: time.Now(), out: &b, config: env.Config()}
			gvk := appsv1.SchemeGroupVersion.WithKind(kind)
			if kind == "Pod" {
				gvk = corev1.SchemeGroupVersion.WithKind(kind)
			}
			if err := x.explain(t.Context(), gvk, client.ObjectKey{Namespace: "default", Name: name}); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		got := explained("Deployment", "web")
		for _, want := range []string{
			"Deployment default/web\n  changed    ",
			" ago by kube-controller-manager (deployment-controller), its status\n",
			"waits for  2 of 2 pods to become available\n",
			"waits for  1 of 2 pods to be created\n",                    // of the ReplicaSet
			" ago by kube-controller-manager (replicaset-controller)\n", // a pod
			"queue      replicaset-controller: ",
			" retries since its start\n",
			"condition  Available=False for 10s, MinimumReplicasUnavailable: ",
			"condition  ReplicaFailure=True for 10s, FailedCreate: pods ",
			"ScalingReplicaSet: Scaled up replica set web-",
			"dependent ReplicaSet default/web-",
			"after      Deployment default/web was changed 10s ago by kapoktest\n",
			"Warning, FailedCreate: Error creating: pods ",
			"dependent Pod default/web-",
			"waits for  a node: the scheduler default-scheduler has not bound it to one\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the explanation has no %q:\n%s", want, got)
			}
		}
		var pods corev1.PodList
		if err := env.Client().List(env.Context(), &pods, client.InNamespace("default")); err != nil || len(pods.Items) != 1 {
			t.Fatalf("%d pods, %v", len(pods.Items), err)
		}
		got = explained("Pod", pods.Items[0].Name)
		for _, want := range []string{"Pod default/web-", "\nowner ReplicaSet default/web-", "\nowner Deployment default/web\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("the explanation has no %q:\n%s", want, got)
			}
		}
	}, kapoktest.Controllers(controllers.Options{}))
}

func TestWaits(t *testing.T) {
	for _, tc := range []struct {
		name string
		obj  map[string]any
		want string
	}{
		{"nothing", map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, ""},
		{"finalizers", map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"a/b", "c/d"}}}, "removal of the finalizers a/b, c/d"},
		{"a grace period", map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": int64(30)}}, "the end of its containers, for which it has 30 s"},
		{"a generation", map[string]any{"metadata": map[string]any{"generation": int64(3)}, "status": map[string]any{"observedGeneration": int64(2)}}, "a controller that sees generation 3: it has seen 2"},
		{"old pods", map[string]any{"kind": "Deployment", "spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{
			"replicas": int64(3), "updatedReplicas": int64(2), "availableReplicas": int64(2)}}, "the end of 1 pod of earlier templates"},
		{"pods of nodes", map[string]any{"kind": "DaemonSet", "status": map[string]any{
			"desiredNumberScheduled": int64(5), "currentNumberScheduled": int64(3), "numberAvailable": int64(2)}}, "2 of 5 pods to be created\n1 of 3 pods to become available"},
		{"a Job", map[string]any{"kind": "Job", "status": map[string]any{"active": int64(2)}}, "the end of 2 pods"},
		{"a pause", map[string]any{"spec": map[string]any{"paused": true}}, "spec.paused to become false"},
		{"a gate", pod(map[string]any{"schedulingGates": []any{map[string]any{"name": "g"}}}, nil), "removal of the scheduling gate g"},
		{"a node", pod(nil, nil), "a node: the scheduler default-scheduler has not bound it to one"},
		{"a kubelet", pod(map[string]any{"nodeName": "n"}, map[string]any{"phase": "Pending"}), "the kubelet of the node n"},
		{"a container", pod(map[string]any{"nodeName": "n"}, map[string]any{"phase": "Running", "containerStatuses": []any{
			map[string]any{"name": "c", "state": map[string]any{"waiting": map[string]any{"reason": "ErrImagePull", "message": "no such image"}}},
		}}), "the container c, ErrImagePull: no such image"},
		{"a readiness gate", pod(map[string]any{"nodeName": "n", "readinessGates": []any{map[string]any{"conditionType": "lb"}}}, map[string]any{"phase": "Running"}), "the condition lb of its readiness gate"},
		{"a pod that has ended", pod(nil, map[string]any{"phase": "Succeeded"}), ""},
	} {
		got := strings.Join(waitsOf(&unstructured.Unstructured{Object: tc.obj}), "\n")
		if !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: waits for %q, want %q", tc.name, got, tc.want)
		}
	}
}

func pod(spec, status map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": status}
}

func TestWhyFlags(t *testing.T) {
	kubeconfig := kubeconfigOf(t, "http://127.0.0.1:1")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "want one KIND/NAME"},
		{"pod", 2, `"pod" is not KIND/NAME, like deployment/web`},
		{"pod/a/b", 2, `"pod/a/b" is not KIND/NAME`},
		{"/a", 2, `"/a" is not KIND/NAME`},
		{"pod/a --namespace=", 2, "--namespace must not be empty"},
		{"pod/a", 1, "kubeconfig "},
		{"pod/a --kubeconfig=" + kubeconfig, 1, "connection refused"},
	} {
		code, _, stderr := kapokRun(append([]string{"why"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d: %s", tc.args, code, stderr)
		}
	}
}
