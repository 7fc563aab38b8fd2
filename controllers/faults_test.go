package controllers_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The ways in which a request fails.
var failures = []string{"conflict", "too many requests", "server error", "no response", "lost response"}

// A failing transport lets one request of controllers fail: the write with the number at.
type failing struct {
	next http.RoundTripper
	at   int64
	how  string

	writes atomic.Int64
	failed atomic.Pointer[string]
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") || f.writes.Add(1) != f.at {
		return f.next.RoundTrip(r)
	}
	f.failed.Store(new(r.Method + " " + r.URL.Path))
	switch f.how {
	case "lost response":
		if resp, err := f.next.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
		return nil, io.ErrUnexpectedEOF
	case "no response":
		time.Sleep(30 * time.Second)
		return nil, errors.New("net/http: timeout awaiting response headers")
	case "too many requests":
		return answer(r, http.StatusTooManyRequests, "TooManyRequests"), nil
	case "conflict":
		if r.Method != http.MethodPost {
			return answer(r, http.StatusConflict, "Conflict"), nil
		}
	}
	return answer(r, http.StatusInternalServerError, "InternalError"), nil
}

func (f *failing) CloseIdleConnections() {} // client-go looks for it

func answer(r *http.Request, code int, reason string) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// TestEachCallFails plays one history, in each run with a failure of another write of the
// controllers. Each run ends as one without failures, after which the controllers write nothing.
func TestEachCallFails(t *testing.T) {
	var want string
	var writes int64
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		f := &failing{}
		want = playHistory(t, env, f)
		writes = f.writes.Load()
		if n := writesOf(env, 12*time.Hour); len(n) > 0 {
			t.Errorf("writes in 12 hours at rest: %v", n)
		}
	})
	t.Logf("%d writes, then:\n%s", writes, want)
	if writes < 50 || !strings.Contains(want, "EndpointSlice of Service web: 4 endpoints") {
		t.Fatal("the history is not that of the test")
	}
	r := rand.New(rand.NewPCG(seeds.Of(t), 17))
	for range 15 {
		f := &failing{at: 1 + r.Int64N(writes), how: failures[r.IntN(len(failures))]}
		t.Run(fmt.Sprint(f.at, " ", f.how), func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				if got := playHistory(t, env, f); got != want {
					t.Errorf("after a failure of %s:\n%s\nwant\n%s", *cmp.Or(f.failed.Load(), new("nothing")), got, want)
				}
			})
		})
	}
}

// playHistory runs all controllers through f, lets objects come, change and go, and returns what is
// there in the end.
func playHistory(t *testing.T, env *kapoktest.Env, f *failing) string {
	cfg := env.Config()
	f.next = cfg.Transport
	cfg.Transport = f
	// Without heartbeats, node-lifecycle-controller would make all pods unready.
	m, err := controllers.New(cfg, controllers.Options{Names: []string{"*", "-nodelifecycle"}, Manager: manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)

	app := func(name string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		selector, template := labeled(name)
		template.Spec.NodeName = "n"
		return selector, template
	}
	web := deployment("web", 3)
	web.Spec.Template.Spec.NodeName = "n"
	set := &appsv1.StatefulSet{ObjectMeta: in("default", "db")}
	set.Spec.Selector, set.Spec.Template = app("db")
	set.Spec.Replicas = new(int32(2))
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("manual"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	daemon := &appsv1.DaemonSet{ObjectMeta: in("default", "agent")}
	daemon.Spec.Selector, daemon.Spec.Template = app("agent")
	daemon.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	job := &batchv1.Job{ObjectMeta: in("default", "job"), Spec: batchv1.JobSpec{Completions: new(int32(3)), Parallelism: new(int32(2)), Template: jobTemplate()}}
	cron := &batchv1.CronJob{ObjectMeta: in("default", "cron"), Spec: batchv1.CronJobSpec{
		Schedule: "*/2 * * * *", SuccessfulJobsHistoryLimit: new(int32(1)), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: jobTemplate()}},
	}}
	service := &corev1.Service{ObjectMeta: in("default", "web"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: web.Spec.Selector.MatchLabels,
	}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: in("default", "web"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: web.Spec.Selector}}
	env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, web, set, daemon, job, cron, service, budget)
	for i := range 3 {
		env.Create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("v", i)}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "manual", AccessModes: set.Spec.VolumeClaimTemplates[0].Spec.AccessModes,
			Capacity:                      set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}})
	}
	playPods(t, env, 6)
	env.Update(web, func() { web.Spec.Template.Spec.Containers[0].Image, web.Spec.Replicas = "web:2", new(int32(4)) })
	env.Update(set, func() { set.Spec.Template.Spec.Containers[0].Image, set.Spec.Replicas = "db:2", new(int32(3)) })
	env.Update(daemon, func() { daemon.Spec.Template.Spec.Containers[0].Image = "agent:2" })
	playPods(t, env, 8)
	env.Update(set, func() { set.Spec.Replicas = new(int32(1)) })
	env.Update(service, func() { service.Spec.Type = corev1.ServiceTypeClusterIP })
	env.Update(cron, func() { cron.Spec.Suspend = new(true) })
	playPods(t, env, 6)
	time.Sleep(20 * time.Minute) // longer than the longest pause of a retry
	return outcome(t, env)
}

// playPods does the work of kubelets every ten seconds.
func playPods(t *testing.T, env *kapoktest.Env, times int) {
	for i := range times {
		time.Sleep(10 * time.Second)
		var list corev1.PodList
		if err := env.Client().List(env.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for j := range list.Items {
			p := &list.Items[j]
			phase := corev1.PodRunning
			if p.Labels[batchv1.JobNameLabel] != "" {
				phase = corev1.PodSucceeded
			}
			switch {
			case p.DeletionTimestamp != nil && i%2 == 1:
				_ = env.Client().Delete(env.Context(), p, client.GracePeriodSeconds(0))
			case p.Status.Phase == corev1.PodPending:
				p.Status.Phase = phase
				p.Status.PodIP, p.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
				_ = env.Client().Status().Update(env.Context(), p) // the pod may be gone
			}
		}
	}
}

// outcome describes the objects that controllers have made or changed.
func outcome(t *testing.T, env *kapoktest.Env) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	list := func(to client.ObjectList, opts ...client.ListOption) {
		if err := env.Client().List(env.Context(), to, opts...); err != nil {
			t.Fatal(err)
		}
	}
	owner := func(o client.Object) string {
		if ref := metav1.GetControllerOf(o); ref != nil {
			name := ref.Name
			if ref.Kind == "ReplicaSet" || ref.Kind == "Job" {
				name, _, _ = strings.Cut(name, "-")
			}
			return ref.Kind + " " + name
		}
		return "no owner"
	}
	var deployments appsv1.DeploymentList
	list(&deployments, client.InNamespace("default"))
	for _, d := range deployments.Items {
		s := d.Status
		add("Deployment %s: %d of %d updated, %d available, observed %v", d.Name, s.UpdatedReplicas, s.Replicas, s.AvailableReplicas, s.ObservedGeneration == d.Generation)
	}
	var replicaSets appsv1.ReplicaSetList
	list(&replicaSets, client.InNamespace("default"))
	for _, r := range replicaSets.Items {
		add("ReplicaSet of %s: %d of %d, revision %s", owner(&r), r.Status.AvailableReplicas, *r.Spec.Replicas, r.Annotations["deployment.kubernetes.io/revision"])
	}
	var sets appsv1.StatefulSetList
	list(&sets, client.InNamespace("default"))
	for _, s := range sets.Items {
		add("StatefulSet %s: %d of %d updated, %d available, done %v", s.Name, s.Status.UpdatedReplicas, s.Status.Replicas, s.Status.AvailableReplicas, s.Status.CurrentRevision == s.Status.UpdateRevision)
	}
	var daemons appsv1.DaemonSetList
	list(&daemons, client.InNamespace("default"))
	for _, d := range daemons.Items {
		add("DaemonSet %s: %d of %d updated, %d available", d.Name, d.Status.UpdatedNumberScheduled, d.Status.DesiredNumberScheduled, d.Status.NumberAvailable)
	}
	var jobs batchv1.JobList
	list(&jobs, client.InNamespace("default"))
	for _, j := range jobs.Items {
		add("Job of %s: %d succeeded, %d failed, %d active", owner(&j), j.Status.Succeeded, j.Status.Failed, j.Status.Active)
	}
	var pods corev1.PodList
	list(&pods, client.InNamespace("default"))
	for _, p := range pods.Items {
		add("Pod of %s: %s %s, finalizers %v, deleted %v", owner(&p), p.Status.Phase, p.Spec.Containers[0].Image, p.Finalizers, p.DeletionTimestamp != nil)
	}
	var claims corev1.PersistentVolumeClaimList
	list(&claims, client.InNamespace("default"))
	for _, c := range claims.Items {
		add("PersistentVolumeClaim %s: %s", c.Name, c.Status.Phase)
	}
	var volumes corev1.PersistentVolumeList
	list(&volumes)
	for _, v := range volumes.Items {
		add("PersistentVolume: %s", v.Status.Phase)
	}
	var slicesOf discoveryv1.EndpointSliceList
	list(&slicesOf, client.InNamespace("default"))
	for _, s := range slicesOf.Items {
		add("EndpointSlice of %s: %d endpoints", owner(&s), len(s.Endpoints))
	}
	var services corev1.ServiceList
	list(&services, client.InNamespace("default"))
	for _, s := range services.Items {
		add("Service %s: finalizers %v, %d addresses", s.Name, s.Finalizers, len(s.Status.LoadBalancer.Ingress))
	}
	var budgets policyv1.PodDisruptionBudgetList
	list(&budgets, client.InNamespace("default"))
	for _, b := range budgets.Items {
		add("PodDisruptionBudget %s: %d of %d healthy, %d allowed", b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DisruptionsAllowed)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
