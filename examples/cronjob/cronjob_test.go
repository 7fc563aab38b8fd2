package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
	kbatch "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
	week = 7 * day
)

// TestWeek is a week of schedules. A bubble begins at the midnight (UTC) before Saturday, 1 January
// 2000.
func TestWeek(t *testing.T) {
	inWorld(t, func(w *world) {
		begin := time.Now().Truncate(hour)
		policy := func(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
			return func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = p }
		}
		limits := func(successful, failed int32) func(*batchv1.CronJob) {
			return func(c *batchv1.CronJob) {
				c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = &successful, &failed
			}
		}
		deadline := func(s int64) func(*batchv1.CronJob) {
			return func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &s }
		}
		fails := func(c *batchv1.CronJob) { c.Spec.JobTemplate.Annotations[failsAnnotation] = "" }

		stop := w.run(manager.Options{}, nil)
		w.cronJob("allow", "0 */2 * * *", 3*hour, limits(3, 1))
		w.cronJob("forbid", "0 */2 * * *", 3*hour, limits(3, 1), policy(batchv1.ForbidConcurrent), deadline(60))
		w.cronJob("forbid-late", "0 */2 * * *", 3*hour, limits(3, 1), policy(batchv1.ForbidConcurrent))
		w.cronJob("replace", "0 */2 * * *", 3*hour, limits(3, 1), policy(batchv1.ReplaceConcurrent))
		w.cronJob("workdays", "CRON_TZ=UTC 30 9 * * 1-5", 30*time.Second)
		w.cronJob("fails", "0 */6 * * *", 30*time.Second, limits(3, 2), fails)
		w.cronJob("keeps-none", "0 */6 * * *", 30*time.Second, limits(0, 0))
		w.cronJob("paused", "0 */2 * * *", 30*time.Second, limits(3, 1))

		time.Sleep(2*day + 30*time.Minute)
		w.update("paused", func(c *batchv1.CronJob) { c.Spec.Suspend = new(true) })
		time.Sleep(2 * day)
		synctest.Wait()
		if got := w.kubelet.of("paused"); len(got) != 24 {
			w.Errorf("paused: %d runs in two days and a pause of two, want 24", len(got))
		}
		if w.logged("cronjob suspended, skipping") == 0 {
			w.Error("nothing in the log about the pause")
		}
		if w.logged("concurrency policy blocks concurrent runs, skipping") == 0 {
			w.Error("nothing in the log about runs that are forbidden")
		}
		w.update("paused", func(c *batchv1.CronJob) { c.Spec.Suspend = new(false) })
		time.Sleep(time.Until(begin.Add(week + time.Minute)))
		synctest.Wait()

		for _, tt := range []struct {
			name  string
			runs  int
			every time.Duration // from each time that was served to the next. 0: not regular
			late  time.Duration // at most, after the time
			min   int           // other jobs that run beside each, except the first
			max   int
			kept  int // jobs that have ended
			alive int // jobs that run in the end
		}{
			{name: "allow", runs: 84, every: 2 * hour, min: 1, max: 1, kept: 3, alive: 2},
			{name: "forbid", runs: 42, every: 4 * hour, kept: 3, alive: 1},       // each second one is left out
			{name: "forbid-late", runs: 56, late: hour, kept: 3, alive: 1},       // or comes later
			{name: "replace", runs: 84, every: 2 * hour, alive: 1},               // none gets to its end
			{name: "workdays", runs: 5, every: day, kept: 5},                     // no limit
			{name: "fails", runs: 28, every: 6 * hour, kept: 2},                  //
			{name: "keeps-none", runs: 28, every: 6 * hour, kept: 1},             // none but that by which the last run is known
			{name: "paused", runs: 24 + 1 + 36, late: 31 * time.Minute, kept: 3}, // of the missed ones, the newest
		} {
			runs := w.kubelet.of(tt.name)
			if len(runs) != tt.runs {
				w.Fatalf("%s: %d runs, want %d", tt.name, len(runs), tt.runs)
			}
			seen := map[string]bool{}
			for i, r := range runs {
				if seen[r.job] {
					w.Errorf("%s: %s ran twice", tt.name, r.job)
				}
				seen[r.job] = true
				if late := r.at.Sub(r.due); late < 0 || late > tt.late {
					w.Errorf("%s: run %d, due at %v, started at %v", tt.name, i, r.due, r.at)
				}
				if i == 0 {
					continue
				}
				if since := r.due.Sub(runs[i-1].due); tt.every != 0 && since != tt.every {
					w.Errorf("%s: run %d is for %v, %v after the one before", tt.name, i, r.due, since)
				}
				if r.beside < tt.min || r.beside > tt.max {
					w.Errorf("%s: run %d has %d beside it", tt.name, i, r.beside)
				}
			}
			kept, alive := 0, 0
			for _, job := range w.jobs(tt.name) {
				if finished(&job) == "" {
					alive++
				} else {
					kept++
				}
			}
			if kept != tt.kept || alive != tt.alive {
				w.Errorf("%s: %d jobs have ended and %d run, want %d and %d", tt.name, kept, alive, tt.kept, tt.alive)
			}
			status := w.get(tt.name).Status
			if last := runs[len(runs)-1].due; status.LastScheduleTime == nil || !status.LastScheduleTime.Time.Equal(last) {
				w.Errorf("%s: lastScheduleTime is %v, want %v", tt.name, status.LastScheduleTime, last)
			}
			if len(status.Active) != tt.alive {
				w.Errorf("%s: active are %v, want %d", tt.name, status.Active, tt.alive)
			}
		}
		stop()
	})
}

// TestJob looks at one job closely: what it is made of, what the status says of it, and that it
// goes with its CronJob.
func TestJob(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.run(manager.Options{}, nil)
		defer stop()
		cronJob := w.cronJob("hello", "*/5 * * * *", time.Minute)
		due := time.Now().Truncate(5 * time.Minute).Add(5 * time.Minute)
		time.Sleep(time.Until(due) - time.Second)
		synctest.Wait()
		if jobs := w.jobs("hello"); len(jobs) != 0 {
			w.Fatalf("%d jobs before it is time", len(jobs))
		}
		if last := w.get("hello").Status.LastScheduleTime; last != nil {
			w.Errorf("lastScheduleTime is %v before it is time", last)
		}

		time.Sleep(2 * time.Second)
		synctest.Wait()
		jobs := w.jobs("hello")
		if len(jobs) != 1 {
			w.Fatalf("%d jobs, want 1", len(jobs))
		}
		job := jobs[0]
		if want := newJob(cronJob, due).Name; job.Name != want {
			w.Errorf("the job is called %s, want %s", job.Name, want)
		}
		if owner := metav1.GetControllerOf(&job); owner == nil || owner.UID != cronJob.UID || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
			w.Errorf("the controller of the job is %v", owner)
		}
		status := w.get("hello").Status
		if len(status.Active) != 1 || status.Active[0].Name != job.Name || status.Active[0].Kind != "Job" ||
			status.Active[0].APIVersion != "batch/v1" || status.Active[0].UID != job.UID {
			w.Errorf("active are %v", status.Active)
		}
		if status.LastScheduleTime == nil || !status.LastScheduleTime.Time.Equal(due) {
			w.Errorf("lastScheduleTime is %v, want %v", status.LastScheduleTime, due)
		}

		// The status follows the end of the job at once, not at the next start.
		time.Sleep(time.Minute)
		synctest.Wait()
		if active := w.get("hello").Status.Active; len(active) != 0 {
			w.Errorf("active are %v after the end of the job", active)
		}

		if err := w.Delete(w.ctx, w.get("hello")); err != nil {
			w.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if jobs := w.jobs("hello"); len(jobs) != 0 {
			w.Errorf("%d jobs outlive the CronJob", len(jobs))
		}
		if w.logged("Reconciler error") != 0 {
			w.Error("the end of the CronJob is an error")
		}
	})
}

// TestDowntime stops the controller for days.
func TestDowntime(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.run(manager.Options{}, nil)
		w.cronJob("hourly", "0 * * * *", time.Minute)
		w.cronJob("daily", "0 0 * * *", time.Minute)
		w.cronJob("strict", "0 0 * * *", time.Minute, func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = new(int64(600)) })
		time.Sleep(day + 5*time.Minute)
		synctest.Wait()
		stop()
		time.Sleep(5 * day) // 120 hours
		stop = w.run(manager.Options{}, nil)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()

		if n := len(w.kubelet.of("hourly")); n != 24 {
			w.Errorf("hourly: %d runs, want those 24 of the first day", n)
		}
		const tooMany = "Too many missed start times (> 100). Set or decrease .spec.startingDeadlineSeconds or check clock skew."
		if w.logged(tooMany) == 0 {
			w.Error("nothing in the log about too many missed starts")
		}
		if runs := w.kubelet.of("daily"); len(runs) != 2 || runs[1].due.Sub(runs[0].due) != 5*day {
			w.Errorf("daily: of the five that were missed, the newest is to run: %v", runs)
		}
		if n := len(w.kubelet.of("strict")); n != 2 {
			w.Errorf("strict: %d runs, want that of the first day, and that of five minutes ago", n)
		}

		// A deadline gets it going again.
		w.update("hourly", func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = new(int64(3600)) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs := w.kubelet.of("hourly"); len(runs) != 25 || runs[24].at.Sub(runs[24].due) > 10*time.Minute {
			w.Errorf("hourly: %d runs after a deadline was set, want 25", len(runs))
		}
	})
}

// TestBadSchedule checks that the controller reports an invalid schedule once, and waits for a
// correction. The webhook normally rejects such schedules.
func TestBadSchedule(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.run(manager.Options{}, nil)
		defer stop()
		w.cronJob("bad", "at noon", time.Minute)
		w.cronJob("worse", "TZ=UTC", time.Minute)
		w.cronJob("never", "0 0 31 2 *", time.Minute)
		time.Sleep(day)
		synctest.Wait()
		if n := w.logged("unable to figure out CronJob schedule"); n < 2 || n > 10 { // some for resyncs, none for retries
			w.Errorf("the log speaks %d times of two bad schedules", n)
		}
		w.update("bad", func(c *batchv1.CronJob) { c.Spec.Schedule = "0 * * * *" })
		time.Sleep(2 * hour)
		synctest.Wait()
		if n := len(w.kubelet.of("bad")); n < 2 {
			w.Errorf("%d runs after the schedule was mended", n)
		}
		for _, name := range []string{"worse", "never"} {
			if n := len(w.kubelet.of(name)); n != 0 {
				w.Errorf("%s: %d runs", name, n)
			}
		}
	})
}

// TestForeignJobs: a CronJob ignores jobs that it does not control, whatever they look like.
func TestForeignJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.run(manager.Options{}, nil)
		defer stop()
		c := w.cronJob("hello", "0 * * * *", time.Minute, func(c *batchv1.CronJob) { c.Spec.SuccessfulJobsHistoryLimit = new(int32(0)) })
		foreign := newJob(c, time.Now().Add(30*day))
		foreign.Labels = map[string]string{"cronjob": "hello", "foreign": ""}
		if err := w.Create(w.ctx, foreign); err != nil {
			w.Fatal(err)
		}
		unreadable := newJob(c, time.Now().Add(60*day))
		unreadable.Annotations = map[string]string{scheduledTimeAnnotation: "soon"}
		unreadable.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c, batchv1.GroupVersion.WithKind("CronJob"))}
		if err := w.Create(w.ctx, unreadable); err != nil {
			w.Fatal(err)
		}
		time.Sleep(3*hour + time.Minute)
		synctest.Wait()
		if n := len(w.kubelet.of("hello")); n != 3 {
			w.Errorf("%d runs in three hours", n)
		}
		if w.logged("unable to parse schedule time for child job") == 0 {
			w.Error("nothing in the log about the job without a readable time")
		}
		var job kbatch.Job
		if err := w.Get(w.ctx, client.ObjectKeyFromObject(foreign), &job); err != nil {
			w.Error(err)
		}
	})
}

// A clock is ahead of the machine's, and further ahead after each reading.
type clock struct {
	ahead, step time.Duration
}

func (c *clock) Now() time.Time {
	c.ahead += c.step
	return time.Now().Add(c.ahead)
}

// TestClock: the controller goes by its own clock.
func TestClock(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.run(manager.Options{}, &clock{ahead: 30 * day})()
		w.cronJob("monthly", "CRON_TZ=UTC 0 0 29 * *", 30*time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		due := time.Date(2000, 1, 29, 0, 0, 0, 0, time.UTC)
		if runs := w.kubelet.of("monthly"); len(runs) != 1 || !runs[0].due.Equal(due) {
			w.Errorf("by a clock that shows the end of January, there are runs %v", runs)
		}
	})
}

// TestTooLate: between the look at the schedule and the start of the job, the deadline passes.
func TestTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.run(manager.Options{}, &clock{step: 7 * time.Minute})()
		w.cronJob("slow", "*/5 * * * *", 30*time.Second, func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = new(int64(301)) })
		time.Sleep(hour)
		synctest.Wait()
		if w.logged("missed starting deadline for last run, sleeping till next") == 0 {
			w.Error("nothing in the log about the deadline")
		}
		if runs := w.kubelet.of("slow"); len(runs) != 0 {
			w.Errorf("runs %v", runs)
		}
	})
}

// TestLeader has two managers, of which one acts at a time.
func TestLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		options := manager.Options{LeaderElection: true, LeaderElectionNamespace: "default"}
		stop := w.run(options, nil)
		time.Sleep(time.Minute)
		var lease coordinationv1.Lease
		key := client.ObjectKey{Namespace: "default", Name: "80807133.tutorial.kubebuilder.io"}
		holder := func() string {
			w.Helper()
			if err := w.Get(w.ctx, key, &lease); err != nil {
				w.Fatal(err)
			}
			return ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		first := holder()
		defer w.run(options, nil)()
		w.cronJob("hello", "*/2 * * * *", 30*time.Second)
		time.Sleep(10 * time.Minute)
		if first == "" || holder() != first {
			w.Errorf("the leader was %q, and is %q", first, holder())
		}
		stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if second := holder(); second == "" || second == first {
			w.Errorf("the leader was %q, and is %q", first, second)
		}
		if n := len(w.kubelet.of("hello")); n != 10 {
			w.Errorf("%d runs in twenty minutes, want 10", n)
		}
	})
}

// TestMetrics looks for what dashboards look for.
func TestMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		registry := prometheus.NewRegistry()
		defer w.run(manager.Options{Metrics: manager.MetricsOptions{Registry: registry}}, nil)()
		w.cronJob("hello", "*/10 * * * *", 30*time.Second)
		time.Sleep(hour)
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil {
			w.Fatal(err)
		}
		found := map[string]bool{}
		for _, f := range families {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if (l.GetName() == "controller" || l.GetName() == "name") && l.GetValue() == "cronjob" {
						found[f.GetName()] = true
					}
				}
			}
		}
		for _, name := range []string{"controller_runtime_reconcile_total", "controller_runtime_reconcile_time_seconds",
			"controller_runtime_active_workers", "workqueue_adds_total"} {
			if !found[name] {
				w.Errorf("no %s of the controller", name)
			}
		}
	})
}
