package cronjob_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/cronjob"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/test/controllertest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCronJob returns a CronJob whose Jobs no controller runs.
func newCronJob(name, schedule string) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.Schedule = schedule
	s := &c.Spec.JobTemplate.Spec
	s.ManagedBy = new("example.com/test")
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	return c
}

// finish ends a Job in its status.
func finish(j *batchv1.Job, end batchv1.JobConditionType) {
	now := metav1.Now()
	if j.Status.StartTime == nil {
		j.Status.StartTime = &now
	}
	before := batchv1.JobFailureTarget
	if end == batchv1.JobComplete {
		before, j.Status.CompletionTime = batchv1.JobSuccessCriteriaMet, &now
	}
	for _, of := range []batchv1.JobConditionType{before, end} {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
}

// A log has the Jobs that a server has had.
type log struct {
	t  testing.TB
	mu sync.Mutex
	// creations are the times of creation by the name of the CronJob and of the slot, in UTC.
	creations map[string]map[time.Time]time.Time
	uids      map[string]types.UID // by name of the Job
	deleted   int
}

// watchJobs records the Jobs of a server until the test ends, and reports slots that are started
// twice.
func watchJobs(t testing.TB, env *kapoktest.Env) *log {
	l := &log{t: t, creations: map[string]map[time.Time]time.Time{}, uids: map[string]types.UID{}}
	c, err := cache.New(env.Server().Config(), cache.Options{}) // without faults
	if err != nil {
		t.Fatal(err)
	}
	informer, err := c.GetInformer(t.Context(), &batchv1.Job{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(l); err != nil {
		t.Fatal(err)
	}
	env.Go(c.Start)
	return l
}

// OnUpdate implements cache.EventHandler.
func (l *log) OnUpdate(_, _ client.Object) {}

// OnDelete implements cache.EventHandler.
func (l *log) OnDelete(client.Object, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted++
}

// OnAdd implements cache.EventHandler.
func (l *log) OnAdd(o client.Object, _ bool) {
	j := o.(*batchv1.Job)
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.uids[j.Name]; ok && was != j.UID {
		l.t.Errorf("%s is started twice", j.Name)
	}
	l.uids[j.Name] = j.UID
	by := metav1.GetControllerOf(j)
	slot, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	if by == nil || err != nil || j.Name != fmt.Sprintf("%s-%d", by.Name, slot.Unix()/60) {
		l.t.Errorf("%s has the annotations %v and the controller %v", j.Name, j.Annotations, by)
		return
	}
	if l.creations[by.Name] == nil {
		l.creations[by.Name] = map[time.Time]time.Time{}
	}
	l.creations[by.Name][slot.UTC()] = j.CreationTimestamp.Time
}

// compare reports a CronJob that has not started the slots that are wanted, or has not at their
// time.
func (l *log) compare(name string, want []time.Time) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.creations[name]
	if len(got) != len(want) {
		l.t.Errorf("%s: %d slots are started, want %d", name, len(got), len(want))
	}
	for _, slot := range want {
		if at, ok := got[slot.UTC()]; !ok || at.Sub(slot) > time.Second {
			l.t.Errorf("%s: slot %v is started at %v", name, slot, at)
			return
		}
	}
}

// TestMonth compares the Jobs of a virtual month with the slots of tables. Clocks are changed in
// this month.
func TestMonth(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		time.Sleep(75*24*time.Hour + 17*time.Second)
		l := watchJobs(t, env)
		controllertest.Run(t, env, "cronjob")
		var names []string
		for i, tt := range cronjob.Tables {
			c := newCronJob(fmt.Sprint("c", i), tt.Schedule())
			c.Spec.TimeZone = cronjob.CronJob(tt).Spec.TimeZone
			c.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent
			if !tt.Often() {
				env.Create(c)
			}
			names = append(names, c.Name)
		}
		begin := time.Now()
		time.Sleep(31 * 24 * time.Hour)
		synctest.Wait()
		for i, tt := range cronjob.Tables {
			if !tt.Often() {
				l.compare(names[i], cronjob.Between(tt, begin, time.Now()))
			}
		}
	})
}

// TestHours compares six hours of a CronJob whose Jobs overlap, and are kept, with each of their
// minutes.
func TestHours(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		l := watchJobs(t, env)
		controllertest.Run(t, env, "cronjob")
		c := newCronJob("c", "* * * * *")
		begin := time.Now()
		env.Create(c)
		for range 6 * 60 {
			time.Sleep(time.Minute)
			var jobs batchv1.JobList
			if err := env.Client().List(t.Context(), &jobs, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			for i := range jobs.Items {
				if j := &jobs.Items[i]; len(j.Status.Conditions) == 0 && time.Since(j.CreationTimestamp.Time) > 2*time.Minute {
					finish(j, batchv1.JobComplete)
					if err := env.Client().Status().Update(t.Context(), j); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		time.Sleep(time.Second)
		l.compare("c", cronjob.Between(cronjob.Tables[0], begin, time.Now()))
		if env.Get(c); len(c.Status.Active) != 3 || time.Since(c.Status.LastScheduleTime.Time) > time.Minute || time.Since(c.Status.LastSuccessfulTime.Time) > 2*time.Minute {
			t.Errorf("the status is %+v", c.Status)
		}
		if kept := len(l.uids) - l.deleted; kept != 6 {
			t.Errorf("%d Jobs are left, want 3 that are active and 3 that have succeeded", kept)
		}
	})
}

// TestClock checks that after a jump of the wall clock the latest slot is started within a minute,
// and none is started twice.
func TestClock(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		l := watchJobs(t, env)
		var mu sync.Mutex
		var ahead time.Duration
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
		jump := func(by time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ahead += by
		}
		count := func() int {
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.creations["c"])
		}
		m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := cronjob.AddWithClock(m, now); err != nil {
			t.Fatal(err)
		}
		env.Go(m.Start)
		env.Create(newCronJob("c", "0 0 * * *"))
		time.Sleep(36 * time.Hour)
		if n := count(); n != 1 {
			t.Fatalf("%d Jobs after 36 hours", n)
		}
		jump(24 * time.Hour) // noon of the next day
		time.Sleep(time.Minute + time.Second)
		if n := count(); n != 2 {
			t.Errorf("%d Jobs after a jump by a day", n)
		}
		jump(-10 * 24 * time.Hour)
		time.Sleep(10 * 24 * time.Hour)
		if n := count(); n != 2 {
			t.Errorf("%d Jobs after a jump back and the time until the same moment", n)
		}
		time.Sleep(24 * time.Hour)
		if n := count(); n != 3 {
			t.Errorf("%d Jobs a day later", n)
		}
	})
}

// TestTakenName checks that a CronJob goes on after a slot whose name another client has taken.
// Kubernetes' controller waits for the next event then.
func TestTakenName(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "cronjob")
		c := newCronJob("c", "*/10 * * * *")
		taken := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: cronjob.JobName(c, time.Now().Add(10*time.Minute))}, Spec: c.Spec.JobTemplate.Spec}
		env.Create(taken, c)
		time.Sleep(25 * time.Minute)
		if env.Get(c); len(c.Status.Active) != 1 || c.Status.LastScheduleTime == nil || time.Since(c.Status.LastScheduleTime.Time) != 5*time.Minute {
			t.Errorf("the status is %+v", c.Status)
		}
	})
}

// TestForgottenJob lets the process end between the creation of a Job, which finishes at once, and
// the write of the status: the next one does not start the slot again, although no Job is kept.
func TestForgottenJob(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		l := watchJobs(t, env)
		c := newCronJob("c", "*/10 * * * *")
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
		env.Create(c)
		time.Sleep(12 * time.Minute)
		slot := time.Now().Add(-2 * time.Minute)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: cronjob.JobName(c, slot), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
			Annotations: map[string]string{batchv1.CronJobScheduledTimestampAnnotation: slot.Format(time.RFC3339)},
		}, Spec: c.Spec.JobTemplate.Spec}
		env.Create(j)
		env.UpdateStatus(j, func() { finish(j, batchv1.JobComplete) })
		controllertest.Run(t, env, "cronjob")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(l.uids) != 1 || l.deleted != 1 {
			t.Errorf("%d Jobs were created and %d deleted, want 1 and 1", len(l.uids), l.deleted)
		}
		if env.Get(c); len(c.Status.Active) != 0 || c.Status.LastScheduleTime == nil || !c.Status.LastScheduleTime.Time.Equal(slot) || c.Status.LastSuccessfulTime == nil {
			t.Errorf("the status is %+v", c.Status)
		}
	})
}

// TestWritesAtRest counts the writes of a virtual day in which no slot can be started.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "cronjob", "ttl-after-finished")
		forbids, suspended := newCronJob("forbids", "* * * * *"), newCronJob("suspended", "* * * * *")
		forbids.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
		suspended.Spec.Suspend = new(true)
		env.Create(forbids, suspended, newCronJob("never", "0 0 31 2 *"), newCronJob("later", "0 0 1 7 *"))
		time.Sleep(10 * time.Minute)
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes, want none", n)
		}
		if env.Get(forbids); len(forbids.Status.Active) != 1 {
			t.Errorf("the status is %+v", forbids.Status)
		}
	})
}

// TestRefused counts the writes of a virtual hour in which all of them are refused: each is tried
// again once a minute.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "cronjob")
		env.Create(newCronJob("c", "* * * * *"))
		time.Sleep(10 * time.Minute)
		if n := controllertest.Writes(env, time.Hour); n < 55 || n > 65 {
			t.Errorf("%d writes in an hour, want 60", n)
		}
	})
}

// TestRefusedDeletion checks that Jobs which cannot be deleted do not delay slots, and are tried
// again with each of them.
func TestRefusedDeletion(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		l := watchJobs(t, env)
		c := newCronJob("c", "* * * * *")
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
		grants := []kapoktest.Grant{
			kapoktest.Can("get,list,watch", "cronjobs.batch", "jobs.batch"), kapoktest.Can("update", "cronjobs.batch/status"),
			kapoktest.Can("create", "jobs.batch"), kapoktest.Can("*", "events"),
		}
		m, err := manager.New(env.User("keeps", grants...), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := cronjob.AddWithClock(m, time.Now); err != nil {
			t.Fatal(err)
		}
		env.Go(func(ctx context.Context) error { return m.Start(ctx) })
		begin := time.Now()
		env.Create(c)
		for range 10 {
			time.Sleep(time.Minute + time.Second/60)
			var jobs batchv1.JobList
			if err := env.Client().List(t.Context(), &jobs, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			for i := range jobs.Items {
				if j := &jobs.Items[i]; len(j.Status.Conditions) == 0 {
					env.UpdateStatus(j, func() { finish(j, batchv1.JobComplete) })
				}
			}
		}
		time.Sleep(time.Second)
		l.compare("c", cronjob.Between(cronjob.Tables[0], begin, time.Now()))
		if l.deleted > 0 {
			t.Errorf("%d Jobs are deleted", l.deleted)
		}
	})
}
