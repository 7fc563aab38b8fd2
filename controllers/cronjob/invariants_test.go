package cronjob_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/cronjob"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// faults are those of random histories.
var faults = kapoktest.Faults{Conflict: 0.1, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.05, DelayWatch: 0.2, CutWatch: 0.02}

// TestInvariants checks what a CronJob promises while its Jobs end and are deleted at random, it is
// suspended and changed, and controllers are restarted or stand still:
//
//   - A slot is not started twice, and only times of a schedule are.
//   - With Forbid, no Job is created beside one that has not finished; with Replace, that one is
//     deleted before.
//   - No Job is created after the deadline, or during a suspension of which the controller knows.
//   - In the end, the latest slot has been started, and status and history are as they should be.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 24 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), faults))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h := &history{t: t, env: env, r: rand.New(rand.NewPCG(seed, uint64(i)))}
				h.play(40)
			}, opts...)
		})
	}
}

// TestExplore searches for the few faults that make a CronJob break its promises.
func TestExplore(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	explored := faults
	explored.Duplicate, explored.Forget = 0.05, 0.02
	explored.StaleList, explored.StaleGet, explored.Unavailable = 0.1, 0.1, 0.02
	seed := seeds.Of(t)
	kapoktest.Explore(t, n, explored, func(t testing.TB, env *kapoktest.Env) {
		h := &history{t: t, env: env, r: rand.New(rand.NewPCG(seed, 7))}
		h.play(15)
	})
}

// A history is a random one of a CronJob.
type history struct {
	t    testing.TB
	env  *kapoktest.Env
	r    *rand.Rand
	cron *batchv1.CronJob
	stop context.CancelFunc // of the controller; nil if it stands still

	mu        sync.Mutex
	tables    []cronjob.Table // that were in force
	policy    batchv1.ConcurrencyPolicy
	deadline  time.Duration // 0: none
	suspended time.Time     // zero if it is not
	replays   int           // that explain no Job after the suspension: those before it, and those used up
	jobs      map[string]*batchv1.Job
	uids      map[string]types.UID // of all Jobs that existed, by name
	latest    time.Time
}

func (h *history) play(steps int) {
	time.Sleep(time.Duration(h.r.IntN(3600)) * time.Second)
	h.jobs, h.uids = map[string]*batchv1.Job{}, map[string]types.UID{}
	h.watch()
	h.restart()
	h.cron = newCronJob("c", "")
	h.cron.Spec.SuccessfulJobsHistoryLimit, h.cron.Spec.FailedJobsHistoryLimit = new(h.r.Int32N(3)), new(h.r.Int32N(3))
	h.policy = []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}[h.r.IntN(3)]
	h.cron.Spec.ConcurrencyPolicy = h.policy
	if h.r.IntN(3) == 0 {
		seconds := 30 + h.r.Int64N(300)
		h.cron.Spec.StartingDeadlineSeconds, h.deadline = &seconds, time.Duration(seconds)*time.Second
	}
	h.reschedule()
	h.env.Create(h.cron)
	for range steps {
		h.step()
		h.check()
	}
	h.end()
}

// reschedule gives the CronJob another schedule, with which it starts Jobs at least once an hour.
func (h *history) reschedule() {
	next := cronjob.Tables[h.r.IntN(4)]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables = append(h.tables, next)
	h.cron.Spec.Schedule = next.Schedule()
}

func (h *history) step() {
	switch n := h.r.IntN(14); {
	case n < 4:
		h.finish(1 + h.r.IntN(2))
	case n == 4:
		h.deleteOne()
	case n == 5 && h.r.IntN(2) == 0:
		h.env.Update(h.cron, func() { h.reschedule() })
	case n == 6:
		h.suspend(h.r.IntN(2) == 0)
	case n == 7:
		h.restart()
	case n == 8 && h.stop != nil:
		h.stop()
		h.stop = nil
	case n < 11:
		time.Sleep(time.Duration(h.r.IntN(3600)) * time.Second)
	default:
		time.Sleep(time.Duration(h.r.IntN(200000)) * time.Millisecond)
	}
	if h.stop == nil && h.r.IntN(3) == 0 {
		h.restart()
	}
}

func (h *history) suspend(on bool) {
	if !on {
		h.setSuspended(time.Time{}) // before a Job can be created again
	}
	h.env.Update(h.cron, func() { h.cron.Spec.Suspend = &on })
	if on && h.suspended.IsZero() {
		h.setSuspended(time.Now())
	}
}

func (h *history) setSuspended(since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.suspended, h.replays = since, h.countReplays()
}

// restart replaces the running controller by a new one.
func (h *history) restart() {
	if h.stop != nil {
		h.stop()
	}
	options := controllers.Options{Names: []string{"cronjob"}}
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(h.env.Config(), options)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.env.Context())
	h.stop = stop
	h.env.Go(func(context.Context) error { return m.Start(ctx) })
}

// some returns the Jobs for which a function is true, in random order.
func (h *history) some(of func(*batchv1.Job) bool) (all []*batchv1.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for name, j := range h.jobs {
		if of(j) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, i := range h.r.Perm(len(names)) {
		all = append(all, h.jobs[names[i]].DeepCopy())
	}
	return all
}

// finish ends n Jobs. Some may have gone, and some requests meet faults.
func (h *history) finish(n int) {
	for _, j := range h.some(runs) {
		if n--; n < 0 {
			return
		}
		end := batchv1.JobComplete
		if h.r.IntN(3) == 0 {
			end = batchv1.JobFailed
		}
		finish(j, end)
		_ = h.env.Client().Status().Update(h.env.Context(), j)
	}
}

// deleteOne deletes a Job, of which the controller has recorded that it was started.
func (h *history) deleteOne() {
	h.env.Get(h.cron)
	for _, j := range h.some(func(*batchv1.Job) bool { return true }) {
		if last := h.cron.Status.LastScheduleTime; last != nil && !slotOf(j).After(last.Time) {
			_ = h.env.Client().Delete(h.env.Context(), j, client.PropagationPolicy(metav1.DeletePropagationBackground))
			return
		}
	}
}

// check checks what must hold at any moment.
func (h *history) check() {
	h.env.Get(h.cron)
	if last := h.cron.Status.LastScheduleTime; last != nil {
		if last.Time.Before(h.latest) {
			h.t.Errorf("lastScheduleTime goes back from %v to %v", h.latest, last)
		}
		h.latest = last.Time
	}
}

// end lets the CronJob run without faults, and checks what must hold then.
func (h *history) end() {
	h.env.EndFaults()
	if h.stop == nil {
		h.restart()
	}
	h.suspend(false)
	h.mu.Lock()
	h.deadline = 0
	h.mu.Unlock()
	h.env.Update(h.cron, func() { h.cron.Spec.StartingDeadlineSeconds = nil })
	for range 5 {
		time.Sleep(20 * time.Minute)
		h.finish(1000)
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(150 * time.Second))) // between two slots
	h.env.Get(h.cron)
	running := h.some(runs)
	if len(running) != len(h.cron.Status.Active) {
		h.t.Errorf("%d Jobs run, %d are active", len(running), len(h.cron.Status.Active))
	}
	for _, j := range running {
		if !slices.ContainsFunc(h.cron.Status.Active, func(r corev1.ObjectReference) bool { return r.UID == j.UID }) {
			h.t.Errorf("%s is not active", j.Name)
		}
	}
	succeeded := len(h.some(func(j *batchv1.Job) bool { return has(j, batchv1.JobComplete) }))
	failed := len(h.some(func(j *batchv1.Job) bool { return has(j, batchv1.JobFailed) }))
	if succeeded > int(*h.cron.Spec.SuccessfulJobsHistoryLimit) || failed > int(*h.cron.Spec.FailedJobsHistoryLimit) {
		h.t.Errorf("%d and %d Jobs are kept, want at most %d and %d", succeeded, failed, *h.cron.Spec.SuccessfulJobsHistoryLimit, *h.cron.Spec.FailedJobsHistoryLimit)
	}
	slots := cronjob.Between(h.tables[len(h.tables)-1], time.Now().Add(-2*time.Hour), time.Now().Add(-time.Second))
	want := slots[len(slots)-1]
	if last := h.cron.Status.LastScheduleTime; h.policy != batchv1.ForbidConcurrent && (last == nil || !last.Time.Equal(want)) {
		h.t.Errorf("the slot started last is %v, want %v", last, want)
	}
	if h.policy == batchv1.ForbidConcurrent && len(running) > 1 {
		h.t.Errorf("%d Jobs run", len(running))
	}
	if h.t.Failed() {
		h.t.Logf("policy %s, deadline %v, %d Jobs, status %+v", h.policy, h.deadline, len(h.uids), h.cron.Status)
	}
}

// watch follows the Jobs of the server.
func (h *history) watch() {
	c, err := cache.New(h.env.Server().Config(), cache.Options{}) // without faults
	if err != nil {
		h.t.Fatal(err)
	}
	informer, err := c.GetInformer(h.t.Context(), &batchv1.Job{}, cache.BlockUntilSynced(false))
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(h); err != nil {
		h.t.Fatal(err)
	}
	h.env.Go(c.Start)
}

// OnAdd checks a new Job.
func (h *history) OnAdd(o client.Object, _ bool) {
	j := o.(*batchv1.Job)
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.uids[j.Name]; ok && was != j.UID {
		h.t.Errorf("%s is started twice", j.Name)
	}
	slot, created := slotOf(j), j.CreationTimestamp.Time
	if !slices.ContainsFunc(h.tables, func(s cronjob.Table) bool { return s.Has(slot) }) {
		h.t.Errorf("%v is no slot", slot)
	}
	if late := created.Sub(slot); late < 0 || h.deadline > 0 && late > h.deadline+2*time.Second {
		h.t.Errorf("the slot %v is started after %v; the deadline is %v", slot, late, h.deadline)
	}
	if !h.suspended.IsZero() && created.Sub(h.suspended) > 5*time.Second && !h.replayed() {
		h.t.Errorf("%s is created %v after the CronJob was suspended", j.Name, created.Sub(h.suspended))
	}
	for name, other := range h.jobs {
		if h.policy != batchv1.AllowConcurrent && runs(other) {
			h.t.Errorf("with %s, %s is created beside %s", h.policy, j.Name, name)
		}
	}
	h.jobs[j.Name], h.uids[j.Name] = j, j.UID
}

// replayed reports whether a watch has shown the controller earlier states of the CronJob again
// since the suspension. It then starts the Job that was due before, as every controller does that
// reads a cache: one for each replay.
func (h *history) replayed() bool {
	n := h.countReplays()
	if n == h.replays {
		return false
	}
	h.replays++
	return true
}

// countReplays counts the faults that show a watch of CronJobs earlier states.
func (h *history) countReplays() (n int) {
	for _, f := range h.env.Faults() {
		if f.What == "Duplicate" && strings.HasSuffix(f.Request, "/cronjobs") {
			n++
		}
	}
	return n
}

// OnUpdate implements cache.EventHandler.
func (h *history) OnUpdate(_, o client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[o.GetName()] = o.(*batchv1.Job)
}

// OnDelete implements cache.EventHandler.
func (h *history) OnDelete(o client.Object, _ bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, o.GetName())
}

func slotOf(j *batchv1.Job) time.Time {
	slot, _ := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	return slot
}

func has(j *batchv1.Job, of batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == of && c.Status == corev1.ConditionTrue })
}

func runs(j *batchv1.Job) bool {
	return j.DeletionTimestamp == nil && !has(j, batchv1.JobComplete) && !has(j, batchv1.JobFailed)
}
