package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a server that knows CronJobs, and who works there. It lives in a synctest bubble: in
// virtual time.
type world struct {
	*testing.T    // that of the bubble: outside of it, nothing is reported
	client.Client // straight to the server
	ctx           context.Context
	config        *rest.Config
	kubelet       *kubelet
	managers      sync.WaitGroup

	mu   sync.Mutex
	logs strings.Builder // of all managers
}

// inWorld runs a test in a world of its own.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		w := &world{T: t, ctx: ctx, config: server.Config()}
		defer func() {
			cancel()
			w.managers.Wait()
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
			if t.Failed() && testing.Verbose() {
				t.Log(w.logs.String())
			}
		}()
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		if w.Client, err = client.New(w.config, client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
		w.kubelet = &kubelet{api: w.Client, runs: map[string][]start{}}
		w.install("crd", "batch.tutorial.kubebuilder.io_cronjobs.yaml")
		test(w)
	})
}

// install creates the object of a generated manifest.
func (w *world) install(path ...string) {
	w.Helper()
	var o unstructured.Unstructured
	data, err := os.ReadFile(filepath.Join(append([]string{"manifests"}, path...)...))
	if err == nil {
		err = yaml.Unmarshal(data, &o.Object)
	}
	if err == nil {
		err = w.Create(w.ctx, &o)
	}
	if err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Second) // until it is established
}

// run starts a manager and a stand-in for the components of Kubernetes that run Jobs. clock may be
// nil. The function that it returns stops them.
func (w *world) run(options manager.Options, clock Clock) (stop func()) {
	w.Helper()
	options.Logger = funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(&w.logs, args)
	}, funcr.Options{Verbosity: 1})
	mgr, err := newManager(w.config, options, clock)
	if err != nil {
		w.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("kubelet").For(&kbatch.Job{}).Complete(w.kubelet)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	w.managers.Go(func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			w.Error(err)
		}
	})
	return func() { cancel(); <-done }
}

// cronJob creates a CronJob whose jobs take some time, and succeed unless change modifies them.
func (w *world) cronJob(name, schedule string, takes time.Duration, change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	w.Helper()
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.Schedule = schedule
	c.Spec.JobTemplate = kbatch.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cronjob": name}, Annotations: map[string]string{takesAnnotation: takes.String()}},
		Spec: kbatch.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers:    []corev1.Container{{Name: "hello", Image: "busybox"}},
			RestartPolicy: corev1.RestartPolicyOnFailure,
		}}},
	}
	for _, f := range change {
		f(c)
	}
	if err := w.Create(w.ctx, c); err != nil {
		w.Fatal(err)
	}
	return c
}

// update changes a CronJob.
func (w *world) update(name string, change func(*batchv1.CronJob)) {
	w.Helper()
	c := w.get(name)
	change(c)
	if err := w.Update(w.ctx, c); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(name string) *batchv1.CronJob {
	w.Helper()
	var c batchv1.CronJob
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: name}, &c); err != nil {
		w.Fatal(err)
	}
	return &c
}

// jobs are the jobs of a CronJob that there are, in the order in which they were due.
func (w *world) jobs(name string) []kbatch.Job {
	w.Helper()
	var list kbatch.JobList
	if err := w.List(w.ctx, &list, client.InNamespace("default"), client.MatchingLabels{"cronjob": name}); err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b kbatch.Job) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// logged returns the number of occurrences of a text in the logs.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.logs.String(), text)
}

const (
	takesAnnotation = "test/takes" // how long a job takes
	failsAnnotation = "test/fails" // there if it fails
)

// A kubelet simulates the job controller and the kubelets of a cluster: each job starts at once,
// and ends after the time in its annotations.
type kubelet struct {
	api client.Client

	mu   sync.Mutex
	runs map[string][]start // by CronJob, in the order of their starts
}

// A start is that of a job.
type start struct {
	job     string
	due, at time.Time
	beside  int // how many other jobs of the CronJob ran then
}

func (k *kubelet) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var job kbatch.Job
	if err := k.api.Get(ctx, req.NamespacedName, &job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	takes, err := time.ParseDuration(job.Annotations[takesAnnotation])
	if err != nil || finished(&job) != "" || metav1.GetControllerOf(&job) == nil {
		return ctrl.Result{}, nil // not a job of these tests, or one that has ended
	}
	now := metav1.Now()
	if job.Status.StartTime == nil {
		if err := k.note(ctx, &job, now.Time); err != nil {
			return ctrl.Result{}, err
		}
		job.Status.StartTime = &now
		return ctrl.Result{RequeueAfter: takes}, k.api.Status().Update(ctx, &job)
	}
	if left := job.Status.StartTime.Add(takes).Sub(now.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	end := []kbatch.JobConditionType{kbatch.JobSuccessCriteriaMet, kbatch.JobComplete}
	if _, fails := job.Annotations[failsAnnotation]; fails {
		end = []kbatch.JobConditionType{kbatch.JobFailureTarget, kbatch.JobFailed}
		job.Status.Failed = 1
	} else {
		job.Status.CompletionTime = &now
		job.Status.Succeeded = 1
	}
	for _, condition := range end {
		job.Status.Conditions = append(job.Status.Conditions, kbatch.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return ctrl.Result{}, k.api.Status().Update(ctx, &job)
}

// note writes down that a job starts.
func (k *kubelet) note(ctx context.Context, job *kbatch.Job, now time.Time) error {
	due, err := scheduledTime(job)
	if err != nil {
		return err
	}
	var all kbatch.JobList
	if err := k.api.List(ctx, &all, client.InNamespace(job.Namespace), client.MatchingLabels{"cronjob": job.Labels["cronjob"]}); err != nil {
		return err
	}
	s := start{job: job.Name, due: due, at: now}
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != job.Name && finished(other) == "" {
			s.beside++
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	name := metav1.GetControllerOf(job).Name
	k.runs[name] = append(k.runs[name], s)
	return nil
}

// of returns the runs of a CronJob.
func (k *kubelet) of(name string) []start {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.runs[name])
}
