package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A cable connects a process with the server until it is cut.
type cable struct {
	next http.RoundTripper
	cut  atomic.Bool
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("the cable is cut")
	}
	return c.next.RoundTrip(r)
}

// TestTakeover checks that of two processes one acts, and the other one within two seconds of its
// death.
func TestTakeover(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		var cables []*cable
		for range 2 {
			cfg := env.Config()
			c := &cable{next: cfg.Transport}
			cfg.Transport = c
			cables = append(cables, c)
			env.Go(func(ctx context.Context) error {
				err := controllers.Options{}.Run(ctx, cfg, slog.New(slog.DiscardHandler), nil, true)
				if c.cut.Load() {
					return nil
				}
				return err
			})
			time.Sleep(10 * time.Second) // the first one leads
		}
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}},
			},
		}}
		env.Create(set)
		countPods(t, env, 1)
		cables[0].cut.Store(true)
		env.Update(set, func() { set.Spec.Replicas = new(int32(3)) })
		died := time.Now()
		countPods(t, env, 3)
		took := time.Since(died)
		if t.Logf("the other process acts after %v", took); took > 2*time.Second {
			t.Error("that is more than two seconds")
		}
		time.Sleep(time.Minute)
		countPods(t, env, 3)
	})
}

// countPods waits until there are so many pods.
func countPods(t *testing.T, env *kapoktest.Env, want int) {
	t.Helper()
	for range 1000 {
		var pods corev1.PodList
		if err := env.Client().List(env.Context(), &pods, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("there are not %d pods", want)
}

// TestMetrics checks that a server serves the metrics of its controllers.
func TestMetrics(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(deployment("web", 2))
		countPods(t, env, 2)
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}) // never ready
		env.Create(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: new(int32(3)), MaxReplicas: 4,
		}})
		finishJob(t, env)
		spec := batchv1.JobSpec{Template: jobTemplate()}
		deleted := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deleted", Finalizers: []string{"example.com/keep"}}, Spec: spec}
		spec.Suspend, spec.Completions, spec.CompletionMode = new(true), new(int32(1)), new(batchv1.IndexedCompletion)
		suspended := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "suspended"}, Spec: spec}
		env.Create(deleted, suspended)
		time.Sleep(10 * time.Second)
		if err := env.Client().Delete(env.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.Config().Host+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := env.Config().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`workqueue_adds_total{controller="deployment-controller"`, `controller_runtime_reconcile_total{controller="replicaset-controller",result="success"}`, `apiserver_request_total{`,
			`job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"} 1`,
			`job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 1`,
			`job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"} 2`,
			`job_controller_job_syncs_total{action="tracking",completion_mode="NonIndexed",result="success"}`,
			`job_controller_job_syncs_total{action="reconciling",completion_mode="NonIndexed",result="success"}`, // of deleted
			`job_controller_job_syncs_total{action="pods_deleted",completion_mode="Indexed",result="success"}`,   // of suspended
			`node_collector_zone_size{zone=""} 1`, `node_collector_unhealthy_nodes_in_zone{zone=""} 1`, `node_collector_zone_health{zone=""} 0`,
			`horizontal_pod_autoscaler_controller_reconciliations_total{action="scale_up",error="none"} 1`,
			`horizontal_pod_autoscaler_controller_reconciliation_duration_seconds_count{action="scale_up",error="none"} 1`,
			`horizontal_pod_autoscaler_controller_reconciliations_total{action="none",error="internal"}`, // no metrics API
			`horizontal_pod_autoscaler_controller_metric_computation_total{action="none",error="internal",metric_type="Resource"}`,
			`horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 1`,
			`horizontal_pod_autoscaler_controller_desired_replicas{hpa_name="web",namespace="default"} 3`,
			`cronjob_controller_job_creation_skew_duration_seconds_sum 0`,
			`cronjob_controller_job_creation_skew_duration_seconds_count 1`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("/metrics has no %s", want)
			}
		}
	}, kapoktest.Controllers(controllers.Options{}))
}

// finishJob lets a CronJob start a Job, whose pod succeeds.
func finishJob(t *testing.T, env *kapoktest.Env) {
	t.Helper()
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backup"}, Spec: batchv1.CronJobSpec{
		Schedule:    "* * * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: jobTemplate()}},
	}}
	env.Create(cron)
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 5*time.Second)))
	var pods corev1.PodList
	if err := env.Client().List(env.Context(), &pods, client.HasLabels{batchv1.JobNameLabel}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("the Job has %d pods: %v", len(pods.Items), err)
	}
	p := &pods.Items[0]
	p.Status.Phase = corev1.PodSucceeded
	if err := env.Client().Status().Update(env.Context(), p); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
}

func jobTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "backup"}}},
	}
}

// deployment returns a Deployment that may roll out by quarters.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
		}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
		},
	}}
}

// TestShards checks that several processes share the work, that another one takes over from one
// that dies, and that each object is written by one of them at a time.
func TestShards(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		const processes, deployments = 3, 30
		var cables []*cable
		writes := make([]atomic.Int64, processes) // of pods
		for i := range processes {
			cfg := env.Config()
			c := &cable{next: counting{cfg.Transport, &writes[i]}}
			cfg.Transport = c
			cables = append(cables, c)
			env.Go(func(ctx context.Context) error {
				err := controllers.Options{Shard: true}.Run(ctx, cfg, slog.New(slog.DiscardHandler), nil, true)
				if c.cut.Load() {
					return nil
				}
				return err
			})
		}
		time.Sleep(5 * time.Second)
		var all []*appsv1.Deployment
		for i := range deployments {
			d := deployment(fmt.Sprint("web-", i), 2)
			env.Create(d)
			all = append(all, d)
		}
		countPods(t, env, 2*deployments)
		for i := range writes {
			if n := writes[i].Load(); n == 0 || n > deployments*3/2 {
				t.Errorf("process %d has created %d of %d pods", i, n, 2*deployments)
			}
		}
		cables[0].cut.Store(true)
		for _, d := range all {
			env.Update(d, func() { d.Spec.Replicas = new(int32(3)) })
		}
		died := time.Now()
		countPods(t, env, 3*deployments)
		if took := time.Since(died); took > 2*time.Second {
			t.Errorf("the other processes act after %v", took)
		}
		time.Sleep(time.Minute)
		countPods(t, env, 3*deployments)
		cables[0].cut.Store(false) // it was suspended, or its network was
		before := writes[0].Load()
		time.Sleep(10 * time.Second)
		for _, d := range all {
			env.Update(d, func() { d.Spec.Replicas = new(int32(4)) })
		}
		countPods(t, env, 4*deployments)
		if writes[0].Load() == before {
			t.Error("the process that has come back does nothing")
		}
		time.Sleep(time.Minute)
		countPods(t, env, 4*deployments)
	})
}

// counting counts creations of pods.
type counting struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
		c.n.Add(1)
	}
	return c.next.RoundTrip(r)
}
