package job_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newJob(name string, spec batchv1.JobSpec) *batchv1.Job {
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
}

// TestWritesAtRest counts the writes of a virtual day in which nothing happens.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Go(newManager(t, env).Start)
		env.Create(
			newJob("runs", batchv1.JobSpec{Parallelism: new(int32(3)), Completions: new(int32(5)), ActiveDeadlineSeconds: new(int64(1e6))}),
			newJob("waits", batchv1.JobSpec{Suspend: new(true)}),
			newJob("done", batchv1.JobSpec{Completions: new(int32(0))}),
			newJob("indexed", batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(2)), BackoffLimitPerIndex: new(int32(1))}),
		)
		env.Settle()
		before := len(env.Writes())
		time.Sleep(24 * time.Hour)
		if n := len(env.Writes()) - before; n > 0 {
			t.Errorf("%d writes, want none: %v", n, env.Writes()[before:])
		}
	})
}

// TestRefusedPods counts the requests of a virtual hour in which all pods of a Job are refused: it
// is tried again once a minute.
func TestRefusedPods(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Go(newManager(t, env).Start)
		refused := newJob("refused", batchv1.JobSpec{Parallelism: new(int32(100)), Completions: new(int32(100))})
		refused.Spec.Template.Spec.PriorityClassName = "absent"
		env.Create(refused)
		time.Sleep(10 * time.Minute)
		before := len(env.Writes())
		time.Sleep(time.Hour)
		creations := 0
		for _, w := range env.Writes()[before:] {
			if w.Method == "POST" && w.Path == "/api/v1/namespaces/default/pods" {
				creations++
			}
		}
		if all := len(env.Writes()) - before; creations < 55 || creations > 65 || all > 2*creations+5 {
			t.Errorf("%d attempts and %d writes in an hour, want 60 attempts and an event each", creations, all)
		}
		if env.Get(refused); refused.Status.Active != 0 {
			t.Errorf("%d pods are active", refused.Status.Active)
		}
	})
}
