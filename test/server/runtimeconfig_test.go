package server_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

func runWith(t *testing.T, o kapok.Options) *kapok.Server {
	server, err := kapok.Start(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	return server
}

// TestRuntimeConfig turns a version and a resource off, and on again: requests, discovery and
// OpenAPI agree, and objects are not lost.
func TestRuntimeConfig(t *testing.T) {
	dir := t.TempDir()
	server := runWith(t, kapok.Options{DataDir: dir})
	clients := kubernetes.NewForConfigOrDie(server.Config())
	job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}}},
	}}
	if _, err := clients.BatchV1().CronJobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}

	server = runWith(t, kapok.Options{DataDir: dir, RuntimeConfig: map[string]bool{"batch/v1/cronjobs": false, "autoscaling/v1": false, "apiregistration.k8s.io/v1": true}})
	clients = kubernetes.NewForConfigOrDie(server.Config())
	if _, err := clients.BatchV1().CronJobs("default").Get(t.Context(), job.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "could not find the requested resource") {
		t.Errorf("get of a resource that is off: %v", err)
	}
	if _, err := clients.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := clients.AutoscalingV1().HorizontalPodAutoscalers("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list of a version that is off: %v", err)
	}
	if _, err := clients.AutoscalingV2().HorizontalPodAutoscalers("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	d := discovery.NewDiscoveryClientForConfigOrDie(server.Config())
	resources, err := d.ServerResourcesForGroupVersion("batch/v1")
	if err != nil {
		t.Fatal(err)
	}
	if named := slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return strings.HasPrefix(r.Name, "cronjobs") }); named || len(resources.APIResources) == 0 {
		t.Errorf("resources of batch/v1: %v", resources.APIResources)
	}
	groups, err := d.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		if g.Name == "autoscaling" && (len(g.Versions) != 1 || g.PreferredVersion.Version != "v2") {
			t.Errorf("versions of autoscaling: %v", g.Versions)
		}
	}
	paths, err := d.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	if _, found := paths["apis/autoscaling/v1"]; found {
		t.Error("OpenAPI describes a version that is off")
	}
	document, err := paths["apis/batch/v1"].Schema("application/json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(document), "/cronjobs") || !strings.Contains(string(document), "/jobs") {
		t.Error("OpenAPI describes a resource that is off, or not those that are on")
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}

	server = runWith(t, kapok.Options{DataDir: dir})
	if _, err := kubernetes.NewForConfigOrDie(server.Config()).BatchV1().CronJobs("default").Get(t.Context(), job.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("turned on again: %v", err)
	}
}

// TestNothingIsServed starts a server without any version: it runs, as others may use its paths.
func TestNothingIsServed(t *testing.T) {
	server := runWith(t, kapok.Options{RuntimeConfig: map[string]bool{"api/all": false}})
	clients := kubernetes.NewForConfigOrDie(server.Config())
	if _, err := clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list of namespaces: %v", err)
	}
	var code int
	if err := clients.Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).StatusCode(&code).Error(); err != nil || code != http.StatusOK {
		t.Errorf("/readyz: %d, %v", code, err)
	}
	groups, err := clients.Discovery().ServerGroups()
	if err != nil || len(groups.Groups) > 0 {
		t.Errorf("groups: %v, %v", groups, err)
	}
}

func TestRuntimeConfigOfUnknown(t *testing.T) {
	_, err := kapok.Start(t.Context(), kapok.Options{RuntimeConfig: map[string]bool{"batch/v9": true}})
	if err == nil || !strings.Contains(err.Error(), `RuntimeConfig: "batch/v9": the server has no version batch/v9`) {
		t.Errorf("a version that does not exist: %v", err)
	}
}
