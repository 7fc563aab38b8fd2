package ttlafterfinished_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newJob returns a Job that no controller runs.
func newJob(name string, ttl *int32) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	j.Spec.TTLSecondsAfterFinished, j.Spec.ManagedBy = ttl, new("example.com/test")
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	return j
}

// fail ends a Job, at a time that may have passed, or is to come.
func fail(j *batchv1.Job, at time.Time) {
	j.Status.StartTime = &metav1.Time{Time: at}
	for _, of := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
	}
}

// expires returns when a Job may be deleted, as its fields say.
func expires(j *batchv1.Job) (time.Time, bool) {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && j.Spec.TTLSecondsAfterFinished != nil {
			return c.LastTransitionTime.Add(time.Duration(*j.Spec.TTLSecondsAfterFinished) * time.Second), true
		}
	}
	return time.Time{}, false
}

// TestInvariants lets Jobs end, and changes their time to live, at random: none is deleted before
// its time, as the server knows it, and in the end those whose time has come are gone.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.1, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.05, DelayWatch: 0.2, CutWatch: 0.02, StaleList: 0.2, StaleGet: 0.2,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { play(t, env, rand.New(rand.NewPCG(seed, uint64(i)))) }, opts...)
		})
	}
}

// TestExplore searches for the few faults with which a Job is deleted too early, or not at all.
func TestExplore(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	seed := seeds.Of(t)
	kapoktest.Explore(t, n, kapoktest.Faults{
		Conflict: 0.1, ServerError: 0.1, Lost: 0.1, DelayWatch: 0.3, MaxDelay: 5 * time.Second, CutWatch: 0.02, Duplicate: 0.1, Forget: 0.05,
		StaleList: 0.2, StaleGet: 0.2, Unavailable: 0.05,
	}, func(t testing.TB, env *kapoktest.Env) { play(t, env, rand.New(rand.NewPCG(seed, 4))) })
}

func play(t testing.TB, env *kapoktest.Env, r *rand.Rand) {
	w := &watcher{t: t, jobs: map[string]*batchv1.Job{}}
	w.start(env)
	stop := restart(t, env, func() {})
	var jobs []*batchv1.Job
	for i := range 10 {
		j := newJob(fmt.Sprint("j-", i), nil)
		if r.IntN(3) > 0 {
			j.Spec.TTLSecondsAfterFinished = new(r.Int32N(600))
		}
		env.Create(j)
		jobs = append(jobs, j)
	}
	for range 60 {
		j := jobs[r.IntN(len(jobs))]
		switch n := r.IntN(8); {
		case n == 0:
			stop = restart(t, env, stop)
		case n < 4:
			time.Sleep(time.Duration(r.IntN(60000)) * time.Millisecond)
		case !w.lives(j.Name):
		case n == 4 && len(j.Status.Conditions) == 0:
			env.UpdateStatus(j, func() { fail(j, time.Now().Add(time.Duration(r.IntN(300)-200)*time.Second)) })
		case n == 5:
			_ = change(env, j, new(r.Int32N(600)))
		case n == 6 && r.IntN(3) == 0:
			_ = change(env, j, nil)
		}
	}
	env.EndFaults()
	time.Sleep(20 * time.Minute)
	for _, j := range jobs {
		if !w.lives(j.Name) {
			continue
		}
		if env.Get(j); j.DeletionTimestamp == nil {
			if at, ok := expires(j); ok && at.Before(time.Now()) {
				t.Errorf("%s is there, at %v; it expired at %v", j.Name, time.Now(), at)
			}
		}
	}
}

// change changes the time to live of a Job that may be deleted meanwhile.
func change(env *kapoktest.Env, j *batchv1.Job, ttl *int32) error {
	patch := client.MergeFrom(j.DeepCopy())
	j.Spec.TTLSecondsAfterFinished = ttl
	return env.Client().Patch(env.Context(), j, patch)
}

func restart(t testing.TB, env *kapoktest.Env, stop func()) context.CancelFunc {
	stop()
	options := controllers.Options{Names: []string{"ttl-after-finished"}}
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(env.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(env.Context())
	env.Go(func(context.Context) error { return m.Start(ctx) })
	return cancel
}

// A watcher has the Jobs of the server, and reports those that are deleted too early.
type watcher struct {
	t    testing.TB
	mu   sync.Mutex
	jobs map[string]*batchv1.Job
}

func (w *watcher) start(env *kapoktest.Env) {
	c, err := cache.New(env.Server().Config(), cache.Options{}) // without faults
	if err != nil {
		w.t.Fatal(err)
	}
	informer, err := c.GetInformer(w.t.Context(), &batchv1.Job{}, cache.BlockUntilSynced(false))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(w); err != nil {
		w.t.Fatal(err)
	}
	env.Go(c.Start)
}

func (w *watcher) lives(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[name] != nil
}

// OnAdd implements cache.EventHandler.
func (w *watcher) OnAdd(o client.Object, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[o.GetName()] = o.(*batchv1.Job)
}

// OnUpdate implements cache.EventHandler.
func (w *watcher) OnUpdate(old, o client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[o.GetName()] = o.(*batchv1.Job)
	if old.GetDeletionTimestamp() == nil && o.GetDeletionTimestamp() != nil {
		w.check(o.(*batchv1.Job))
	}
}

// OnDelete implements cache.EventHandler.
func (w *watcher) OnDelete(o client.Object, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, o.GetName())
	if o.GetDeletionTimestamp() == nil {
		w.check(o.(*batchv1.Job))
	}
}

func (w *watcher) check(j *batchv1.Job) {
	if at, ok := expires(j); !ok || time.Now().Before(at) {
		w.t.Errorf("%s is deleted at %v; it expires at %v (%t)", j.Name, time.Now(), at, ok)
	}
}

// TestWritesAtRest counts the writes of a virtual day in which no time to live ends.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "ttl-after-finished")
		for name, ttl := range map[string]*int32{"none": nil, "long": new(int32(1e6)), "longest": new(int32(1<<31 - 1))} {
			j := newJob(name, ttl)
			env.Create(j)
			env.UpdateStatus(j, func() { fail(j, time.Now()) })
		}
		env.Create(newJob("runs", new(int32(0))))
		time.Sleep(time.Minute)
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes, want none", n)
		}
	})
}

// TestRefused counts the attempts of a virtual hour to delete a Job, when the server refuses that:
// one a minute.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "ttl-after-finished")
		j := newJob("j", new(int32(0)))
		env.Create(j)
		env.UpdateStatus(j, func() { fail(j, time.Now()) })
		time.Sleep(10 * time.Minute)
		if n := controllertest.Writes(env, time.Hour); n < 55 || n > 65 {
			t.Errorf("%d writes in an hour, want 60", n)
		}
	})
}
