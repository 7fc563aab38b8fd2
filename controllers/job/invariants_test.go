package job_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untracked is the reason of pods that end without the finalizer of the controller: they do not
// count, and are replaced.
const untracked = "Untracked"

// keep is a finalizer of all pods of a history: none vanishes, so that the expected counts of the
// Job follow from the pods.
const keep = "example.com/keep"

// TestInvariants checks what a Job promises while its pods succeed, fail and are deleted at random,
// it is suspended and scaled, and controllers are restarted: each pod is counted once, at any
// moment no pod that has not ended is, and in the end none is missing.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 40 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i))), faults: i%2 == 1}
			var opts []kapoktest.Option
			if h.faults {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.03, DelayWatch: 0.1, CutWatch: 0.02,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { h.t, h.env = t, env; h.play(40) }, opts...)
		})
	}
}

// TestExplore searches for the few faults that make a Job count wrongly.
func TestExplore(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	faults := kapoktest.Faults{
		Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.03, Duplicate: 0.02, DelayWatch: 0.1, CutWatch: 0.02, StaleList: 0.1, Unavailable: 0.02,
	}
	for i := range uint64(3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := seeds.Of(t)
			kapoktest.Explore(t, n, faults, func(t testing.TB, env *kapoktest.Env) {
				h := &history{t: t, env: env, r: rand.New(rand.NewPCG(seed, i)), faults: true}
				h.play(20)
			})
		})
	}
}

// A history is one random one.
type history struct {
	t      testing.TB
	env    *kapoktest.Env
	r      *rand.Rand
	faults bool

	job      *batchv1.Job
	resizes  bool // the Job is suspended and scaled, so that pods are removed without being counted
	pods     []corev1.Pod
	before   batchv1.JobStatus
	stop     context.CancelFunc // of the controllers
	restarts int
}

func (h *history) play(steps int) {
	h.restart()
	h.job = h.randomJob()
	h.env.Create(h.job)
	for range steps {
		h.step()
		h.check()
	}
	for range 150 {
		if h.check(); over(h.job) {
			break
		}
		h.env.Update(h.job, func() { h.job.Spec.Suspend, h.job.Spec.Parallelism = new(false), new(max(1, *h.job.Spec.Parallelism)) })
		h.act(10, (*history).succeed)
		h.endDeleted()
		time.Sleep(20 * time.Second)
	}
	h.env.EndFaults()
	h.env.Settle()
	h.check()
	h.checkEnd()
	if h.t.Failed() {
		h.t.Logf("%d restarts\n%s", h.restarts, h.describe())
	}
}

// restart replaces the running controllers by new ones.
func (h *history) restart() {
	if h.stop != nil {
		h.stop()
		h.restarts++
	}
	m := newManager(h.t, h.env)
	ctx, stop := context.WithCancel(h.env.Context())
	h.stop = stop
	h.env.Go(func(context.Context) error { return m.Start(ctx) })
}

func newManager(t testing.TB, env *kapoktest.Env) manager.Manager {
	options := controllers.Options{Names: []string{"job"}}
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(env.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (h *history) randomJob() *batchv1.Job {
	completions := 1 + h.r.Int32N(8)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default"}}
	j.Spec = batchv1.JobSpec{
		Parallelism: new(1 + h.r.Int32N(4)), Completions: &completions, BackoffLimit: new(cmp.Or(h.r.Int32N(8), 1000)),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Finalizers: []string{keep}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
		},
	}
	switch h.r.IntN(4) {
	case 0:
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	case 1:
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = nil, new(h.r.Int32N(3))
	case 2:
		j.Spec.Completions = nil
	}
	if h.r.IntN(3) == 0 {
		j.Spec.PodReplacementPolicy = new(batchv1.Failed)
	}
	h.resizes = h.r.IntN(2) == 0
	return j
}

// step does something at random.
func (h *history) step() {
	switch n := h.r.IntN(12); {
	case n < 3:
		h.act(1, (*history).succeed)
	case n < 5:
		h.act(1+h.r.IntN(2), (*history).fail)
	case n == 5:
		h.act(1, (*history).delete)
	case n == 6 && h.resizes:
		h.env.Update(h.job, func() { h.job.Spec.Suspend = new(h.r.IntN(2) == 0) })
	case n == 7 && h.resizes:
		h.env.Update(h.job, func() { h.job.Spec.Parallelism = new(h.r.Int32N(5)) })
	case n == 8 && h.r.IntN(2) == 0:
		h.restart()
	case n == 9:
		h.endDeleted()
	case n == 10 && h.resizes:
		h.act(1, (*history).untrack)
	default:
		time.Sleep(time.Duration(h.r.IntN(15000)) * time.Millisecond)
	}
}

// act acts on n random pods that run.
func (h *history) act(n int, do func(*history, *corev1.Pod) error) {
	h.list()
	for _, i := range h.r.Perm(len(h.pods)) {
		p := &h.pods[i]
		if n == 0 || !isActive(p) {
			continue
		}
		n--
		for tries := 0; tries < 20; tries++ {
			if err := do(h, p); err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				break // a conflict: the controller is faster, or this client does not know that it succeeded
			}
		}
	}
}

// untrack removes the finalizer of a pod, unless it has changed. The controller does the same
// before it deletes a pod that is too many, and the deletion may fail.
func (h *history) untrack(p *corev1.Pod) error {
	p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return h.env.Client().Update(h.env.Context(), p)
}

func (h *history) succeed(p *corev1.Pod) error { return h.end(p, corev1.PodSucceeded, 0) }
func (h *history) fail(p *corev1.Pod) error    { return h.end(p, corev1.PodFailed, 1) }

// end ends a pod, unless it has changed.
func (h *history) end(p *corev1.Pod, phase corev1.PodPhase, code int32) error {
	if p.Status.Phase = phase; !counts(p) && p.Status.Reason == "" {
		p.Status.Reason = untracked
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: "i:1", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
	}}}
	return h.env.Client().Status().Update(h.env.Context(), p)
}

// delete deletes a pod, unless it has changed. Its finalizer keeps it.
func (h *history) delete(p *corev1.Pod) error {
	return h.env.Client().Delete(h.env.Context(), p, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
}

// endDeleted ends the pods that are being deleted, as their node would.
func (h *history) endDeleted() {
	h.list()
	for i := range h.pods {
		if p := &h.pods[i]; p.DeletionTimestamp != nil && !hasEnded(p) {
			p.Status.Reason = "Deleted"
			_ = h.end(p, corev1.PodFailed, 137) // a later call tries again
		}
	}
}

func (h *history) list() {
	var list corev1.PodList
	for tries := 0; ; tries++ {
		err := h.env.Client().List(h.env.Context(), &list, client.InNamespace("default"))
		if err == nil {
			break
		}
		if tries == 100 {
			h.t.Fatal(err)
		}
	}
	h.pods = list.Items
}

// check checks what must hold at any moment.
func (h *history) check() {
	h.env.Get(h.job)
	h.list() // later than the Job: it cannot have counted more
	s := h.job.Status
	uncounted := batchv1.UncountedTerminatedPods{}
	if s.UncountedTerminatedPods != nil {
		uncounted = *s.UncountedTerminatedPods
	}
	succeeded, failed := h.number(hasSucceeded), h.number(hasFailed)
	if indexed(h.job) {
		succeeded = len(h.done())
	}
	if n := int(s.Succeeded) + len(uncounted.Succeeded); n > succeeded {
		h.t.Errorf("%d pods are counted as succeeded, of %d", n, succeeded)
	}
	if n := int(s.Failed) + len(uncounted.Failed); n > failed+h.number(isDeleted) {
		h.t.Errorf("%d pods are counted as failed, of %d and %d that are being deleted", n, failed, h.number(isDeleted))
	}
	if s.Succeeded < h.before.Succeeded || s.Failed < h.before.Failed {
		h.t.Errorf("counters decrease from %d and %d to %d and %d", h.before.Succeeded, h.before.Failed, s.Succeeded, s.Failed)
	}
	if active := h.number(isActive); !h.faults && !h.resizes && h.restarts == 0 && active > int(*h.job.Spec.Parallelism) {
		h.t.Errorf("%d pods are active, %d are wanted", active, *h.job.Spec.Parallelism)
	}
	h.before = s
}

// checkEnd checks what must hold when nothing happens any more.
func (h *history) checkEnd() {
	s := h.job.Status
	if !over(h.job) {
		h.t.Errorf("the Job does not end")
	}
	for i := range h.pods {
		if p := &h.pods[i]; counts(p) {
			h.t.Errorf("pod %s has not been counted", p.Name)
		}
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		h.t.Errorf("uncounted pods remain: %+v", u)
	}
	if indexed(h.job) {
		if done := h.done(); s.CompletedIndexes != text(done) || int(s.Succeeded) != len(done) {
			h.t.Errorf("indexes %q, %d, have succeeded, want %q", s.CompletedIndexes, s.Succeeded, text(done))
		}
	} else if n := h.number(hasSucceeded); int(s.Succeeded) != n {
		h.t.Errorf("%d pods are counted as succeeded, want %d", s.Succeeded, n)
	}
	// Of the pods that are being deleted, those that the controller has removed are not counted, nor
	// those that have not failed yet when the Job succeeds.
	least, most := h.number(hasFailed), h.number(hasFailed)+h.number(isDeleted)
	if !h.resizes && !h.faults && *h.job.Spec.PodReplacementPolicy != batchv1.Failed {
		least = most
	}
	if n := int(s.Failed); n < least || n > most {
		h.t.Errorf("%d pods are counted as failed, want %d to %d", n, least, most)
	}
}

func (h *history) number(of func(*corev1.Pod) bool) (n int) {
	for i := range h.pods {
		if of(&h.pods[i]) {
			n++
		}
	}
	return n
}

// done returns the indexes of pods that have succeeded.
func (h *history) done() (all []int) {
	for i := range h.pods {
		var index int
		if _, err := fmt.Sscan(h.pods[i].Annotations[batchv1.JobCompletionIndexAnnotation], &index); err == nil && hasSucceeded(&h.pods[i]) {
			all = append(all, index)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (h *history) describe() string {
	var b strings.Builder
	spec := h.job.Spec
	spec.Template = corev1.PodTemplateSpec{}
	for _, v := range []any{spec, h.job.Status} {
		text, _ := json.Marshal(v)
		fmt.Fprintf(&b, "%s\n", text)
	}
	for _, p := range h.pods {
		fmt.Fprintf(&b, "%s %s deleted=%v %v %v\n", p.Name, p.Status.Phase, p.DeletionTimestamp, p.Finalizers, p.Annotations)
	}
	return b.String()
}

func over(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func indexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

// text is the text of completed indexes, made in the simplest way.
func text(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		n := i
		for n+1 < len(all) && all[n+1] == all[n]+1 {
			n++
		}
		switch n - i {
		case 0:
			parts = append(parts, fmt.Sprint(all[i]))
		case 1:
			parts = append(parts, fmt.Sprint(all[i]), fmt.Sprint(all[n]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", all[i], all[n]))
		}
		i = n + 1
	}
	return strings.Join(parts, ",")
}

func isActive(p *corev1.Pod) bool { return !hasEnded(p) && p.DeletionTimestamp == nil }
func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// hasSucceeded reports whether a pod has succeeded, and counts for that.
func hasSucceeded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded && p.Status.Reason != untracked
}

// hasFailed reports whether a pod has failed by itself, and counts for that.
func hasFailed(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == ""
}

// isDeleted reports whether a pod was deleted before it ended.
func isDeleted(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && !hasSucceeded(p) && !hasFailed(p) && p.Status.Reason != untracked
}

// counts reports whether a pod is still to be counted.
func counts(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }
