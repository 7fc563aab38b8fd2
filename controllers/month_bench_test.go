package controllers_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var days = flag.Int("days", 30, "days in the month of BenchmarkMonth")

// BenchmarkMonth is a month of virtual time with one workload of a kind, in which something happens
// every hour, or to a CronJob every minute: -benchtime 1x. Pods run as soon as they exist.
func BenchmarkMonth(b *testing.B) {
	for _, w := range []struct {
		name  string
		names []string // of the controllers
		begin func(*month)
		hour  func(*month, int)
		pods  int // that have existed, at least, for each hour
	}{
		{"ReplicaSet", []string{"replicaset"}, (*month).createSet, (*month).deletePod, 1},
		{"Deployment", []string{"deployment", "replicaset"}, (*month).createDeployment, (*month).rollOut, 5},
		{"StatefulSet", []string{"statefulset"}, (*month).createStatefulSet, (*month).rollOutSet, 3},
		{"Job", []string{"job", "ttl-after-finished"}, func(*month) {}, (*month).createJob, 5},
		{"CronJob", []string{"cronjob"}, (*month).createCronJob, func(*month, int) {}, 0},
		{"CronJobHourly", []string{"cronjob", "job"}, (*month).createHourly, func(*month, int) {}, 1},
	} {
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				inBubble(b, func(t *testing.T, env *kapoktest.Env) {
					m := newMonth(t, env, w.names)
					w.begin(m)
					time.Sleep(time.Minute)
					for hour := range *days * 24 {
						w.hour(m, hour)
						time.Sleep(time.Hour)
					}
					time.Sleep(time.Second)
					if want := w.pods * *days * 24; m.count() < want {
						t.Errorf("%d pods, want %d or more", m.count(), want)
					}
					if m.after != nil {
						m.after()
					}
					b.ReportMetric(float64(len(env.Requests())), "requests/op")
				})
			}
		})
	}
}

// inBubble runs what needs a T in a benchmark, which has none to begin a bubble with.
func inBubble(b *testing.B, run func(t *testing.T, env *kapoktest.Env)) {
	b.Helper()
	all := func(_, _ string) (bool, error) { return true, nil }
	test := func(t *testing.T) { kapoktest.Bubble(t, run) }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: test}}) {
		b.Fatal("the test has failed")
	}
}

// month is a server with controllers, and with a reconciler that runs the pods.
type month struct {
	t      *testing.T
	env    *kapoktest.Env
	client client.Client
	object client.Object
	after  func()

	mu   sync.Mutex
	seen map[string]bool // uids of pods
}

func newMonth(t *testing.T, env *kapoktest.Env, names []string) *month {
	o := controllers.Options{Names: names}
	o.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	mgr, err := controllers.New(env.Config(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := &month{t: t, env: env, client: mgr.GetClient(), seen: map[string]bool{}}
	if err := controller.NewControllerManagedBy(mgr).Named("pods").For(&corev1.Pod{}).Complete(m); err != nil {
		t.Fatal(err)
	}
	env.Go(mgr.Start)
	return m
}

func (m *month) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

// Reconcile runs a pod, lets one of a Job succeed, and ends one that is deleted.
func (m *month) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var p corev1.Pod
	if err := m.client.Get(ctx, req.NamespacedName, &p); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	m.mu.Lock()
	m.seen[string(p.UID)] = true
	m.mu.Unlock()
	switch {
	case p.DeletionTimestamp != nil && len(p.Finalizers) == 0:
		return controller.Result{}, client.IgnoreNotFound(m.client.Delete(ctx, &p, client.GracePeriodSeconds(0)))
	case p.Status.Phase != corev1.PodPending:
		return controller.Result{}, nil
	}
	p.Status.Phase = corev1.PodRunning
	if p.Spec.RestartPolicy == corev1.RestartPolicyNever {
		p.Status.Phase = corev1.PodSucceeded
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return controller.Result{}, client.IgnoreNotFound(m.client.Status().Update(ctx, &p))
}

func (m *month) create(o client.Object) {
	m.object = o
	m.env.Create(o)
}

func (m *month) createDeployment() { m.create(deployment("web", 5)) }

func (m *month) rollOut(hour int) {
	d := m.object.(*appsv1.Deployment)
	m.env.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("web:", hour+2) })
}

func (m *month) createSet() {
	d := deployment("web", 5)
	m.create(&appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}})
}

func (m *month) deletePod(int) {
	var pods corev1.PodList
	if err := m.env.Client().List(m.env.Context(), &pods, client.InNamespace("default")); err != nil || len(pods.Items) != 5 {
		m.t.Fatalf("%d pods (%v)", len(pods.Items), err)
	}
	m.env.Delete(&pods.Items[0])
}

func (m *month) createStatefulSet() {
	d := deployment("web", 3)
	m.create(&appsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}})
}

func (m *month) rollOutSet(hour int) {
	s := m.object.(*appsv1.StatefulSet)
	m.env.Update(s, func() { s.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("web:", hour+2) })
}

func jobSpec() batchv1.JobSpec {
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
	}}}
}

func (m *month) createJob(hour int) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("j-", hour)}, Spec: jobSpec()}
	j.Spec.Completions, j.Spec.Parallelism, j.Spec.TTLSecondsAfterFinished = new(int32(5)), new(int32(2)), new(int32(600))
	m.create(j)
}

// createCronJob creates one with a Job a minute, which replaces the one before.
func (m *month) createCronJob() {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Spec = batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ReplaceConcurrent, JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec()}}
	m.create(c)
	begin := time.Now()
	m.after = func() {
		jobs := 0
		for _, r := range m.env.Writes() {
			if r.Method == "POST" && r.Path == "/apis/batch/v1/namespaces/default/jobs" && r.Code == 201 {
				jobs++
			}
		}
		if want := int(time.Since(begin) / time.Minute); *days <= 20 && jobs != want { // of a longer time, not all are recorded
			m.t.Errorf("%d Jobs, want %d", jobs, want)
		}
	}
}

// createHourly creates one with Jobs that end.
func (m *month) createHourly() {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Spec = batchv1.CronJobSpec{Schedule: "17 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec()}}
	m.create(c)
}
