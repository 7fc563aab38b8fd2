package main

import (
	"context"
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkMonth is a month of virtual time of a CronJob that runs every five minutes: 8,640 jobs
// that are made, start, end a minute later, and are removed when there are three newer ones.
// heap-MB is what lives in the end, of server, manager and test together.
func BenchmarkMonth(b *testing.B) {
	for b.Loop() {
		inBubble(b, func(t *testing.T, env *kapoktest.Env) {
			mgr, err := newManager(env.Config(), manager.Options{Logger: logr.New(silent{})}, nil)
			if err != nil {
				t.Fatal(err)
			}
			jobs := &runner{Client: mgr.GetClient()}
			if err := ctrl.NewControllerManagedBy(mgr).For(&kbatch.Job{}).Complete(jobs); err != nil {
				t.Fatal(err)
			}
			env.Go(mgr.Start)
			often := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "often"}}
			often.Spec.Schedule = "*/5 * * * *"
			often.Spec.SuccessfulJobsHistoryLimit = new(int32(3))
			often.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
				Containers: []corev1.Container{{Name: "hello", Image: "busybox"}}, RestartPolicy: corev1.RestartPolicyOnFailure,
			}
			env.Create(often)
			month := time.Duration(*days) * day
			time.Sleep(month + 2*time.Minute) // so that the last one has ended
			env.Settle()
			if want := int(month / (5 * time.Minute)); jobs.ended != want {
				t.Errorf("%d runs in a month, want %d", jobs.ended, want)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
			b.ReportMetric(float64(len(env.Requests())), "requests/op")
		})
	}
}

var days = flag.Int("days", 30, "days in the month of BenchmarkMonth")

// inBubble runs what needs a T in a benchmark, which has none to begin a bubble with.
func inBubble(b *testing.B, run func(t *testing.T, env *kapoktest.Env)) {
	b.Helper()
	every := func(_, _ string) (bool, error) { return true, nil }
	test := func(t *testing.T) {
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		kapoktest.Bubble(t, run, kapoktest.Scheme(scheme), kapoktest.CRDs("manifests/crd"))
	}
	if !testing.RunTests(every, []testing.InternalTest{{Name: b.Name(), F: test}}) {
		b.Fatal("the test has failed")
	}
}

// A runner starts jobs at once, and ends them a minute later.
type runner struct {
	client.Client
	ended int
}

func (r *runner) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var job kbatch.Job
	if err := r.Get(ctx, req.NamespacedName, &job); err != nil || finished(&job) != "" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	now := metav1.Now()
	if job.Status.StartTime == nil {
		job.Status.StartTime = &now
		return ctrl.Result{RequeueAfter: time.Minute}, r.Status().Update(ctx, &job)
	}
	if left := job.Status.StartTime.Add(time.Minute).Sub(now.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	r.ended++
	job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	for _, c := range []kbatch.JobConditionType{kbatch.JobSuccessCriteriaMet, kbatch.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, kbatch.JobCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return ctrl.Result{}, r.Status().Update(ctx, &job)
}

// silent discards all writes.
type silent struct{}

func (silent) Init(logr.RuntimeInfo)            {}
func (silent) Enabled(int) bool                 { return false }
func (silent) Info(int, string, ...any)         {}
func (silent) Error(error, string, ...any)      {}
func (s silent) WithValues(...any) logr.LogSink { return s }
func (s silent) WithName(string) logr.LogSink   { return s }
