package simulated_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestInvariants creates and deletes random pods, restarts the simulation, and checks each state of
// each pod:
//
//   - No container runs in a pod that has ended.
//   - The number of restarts of a container never decreases.
//   - A pod that has succeeded or failed keeps its phase.
//   - Its address, start time and host do not change.
//   - No two pods that have not ended have the same address.
//
// In the end, when faults have ceased, all pods that were deleted are gone, and all others have
// been started.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	histories := 20
	if testing.Short() {
		histories = 6
	}
	for i := range histories {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, Lost: 0.05, DelayWatch: 0.1, CutWatch: 0.02, MaxDelay: 5 * time.Second, Begin: kapoktest.BeginSynced,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h := &history{env: env, r: r, pods: map[types.UID]*corev1.Pod{}, addresses: map[string]types.UID{}, deleted: map[string]bool{}}
				h.play(t)
			}, opts...)
		})
	}
}

// A history is a random one.
type history struct {
	env     *kapoktest.Env
	r       *rand.Rand
	deleted map[string]bool // by the names of all pods that were created

	mu        sync.Mutex
	pods      map[types.UID]*corev1.Pod // the last states
	addresses map[string]types.UID
	broken    []string
}

func (h *history) play(t *testing.T) {
	stop := h.run(t)
	end := watchPods(t, h.env, h.note)
	for i := range 60 {
		switch h.r.IntN(8) {
		case 0, 1, 2:
			h.create(i)
		case 3, 4:
			h.delete()
		case 5:
			if h.r.IntN(4) == 0 {
				stop()
				time.Sleep(time.Duration(h.r.IntN(60)) * time.Second)
				stop = h.run(t)
			}
		default:
			time.Sleep(time.Duration(h.r.IntN(20_000)) * time.Millisecond)
		}
	}
	h.env.EndFaults()
	time.Sleep(10 * time.Minute)
	end()
	for name, deleted := range h.deleted {
		p := newPod(name, "")
		if h.env.Exists(p) {
			if h.env.Get(p); deleted || p.Status.StartTime == nil {
				h.broken = append(h.broken, fmt.Sprintf("%s (deleted: %v): %s", name, deleted, state(p)))
			}
		}
	}
	stop()
	for _, broken := range h.broken {
		t.Error(broken)
	}
}

// run runs the simulation until stop.
func (h *history) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newManager(t, h.env.Config(), simulated.Options{Nodes: 2})
	done := make(chan struct{})
	h.env.Go(func(context.Context) error {
		defer close(done)
		return m.Start(ctx)
	})
	return func() {
		cancel()
		<-done
	}
}

func (h *history) create(i int) {
	simulations := []string{
		"", "containers: {c: {run: 3s, exit: 1}}", "containers: {c: {run: 20s}}", "containers: {c: {pull: 3s, stop: 5s}}",
		"containers: {c: {stop: 1m}}", "containers: {c: {run: 0s, exit: 1, times: 3}}", `containers: {"*": {pullError: true}}`,
	}
	p := newPod(fmt.Sprint("p", i), fmt.Sprint("node-", h.r.IntN(2)))
	if s := simulations[h.r.IntN(len(simulations))]; s != "" {
		simulating(p, s)
	}
	p.Spec.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[h.r.IntN(3)]
	p.Spec.TerminationGracePeriodSeconds = new(int64(10))
	if h.r.IntN(3) == 0 {
		p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "i"}}
	}
	if h.r.IntN(3) == 0 {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "s", Image: "i", RestartPolicy: &always})
	}
	if h.r.IntN(4) == 0 {
		p.Spec.ActiveDeadlineSeconds = new(int64(30))
	}
	h.env.Create(p)
	h.deleted[p.Name] = false
}

func (h *history) delete() {
	var names []string
	for name, deleted := range h.deleted {
		if !deleted {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	name := names[h.r.IntN(len(names))]
	h.env.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	h.deleted[name] = true
}

// note checks a state of a pod.
func (h *history) note(e watch.Event) {
	p, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.pods[p.UID]
	h.pods[p.UID] = p
	fail := func(format string, args ...any) {
		h.broken = append(h.broken, p.Name+": "+fmt.Sprintf(format, args...))
	}
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, s := range all {
		if ended && s.State.Running != nil {
			fail("%s runs, and the pod is %s", s.Name, p.Status.Phase)
		}
	}
	if ip := p.Status.PodIP; ip != "" {
		if owner := h.addresses[ip]; owner != "" && owner != p.UID && !ended && e.Type != watch.Deleted {
			fail("has the address %s of %s", ip, h.pods[owner].Name)
		}
		if h.addresses[ip] = p.UID; ended || e.Type == watch.Deleted {
			delete(h.addresses, ip)
		}
	}
	if was == nil {
		return
	}
	if wasEnded := was.Status.Phase == corev1.PodSucceeded || was.Status.Phase == corev1.PodFailed; wasEnded && was.Status.Phase != p.Status.Phase {
		fail("%s after %s", p.Status.Phase, was.Status.Phase)
	}
	if was.Status.PodIP != "" && was.Status.PodIP != p.Status.PodIP || was.Status.StartTime != nil && !was.Status.StartTime.Equal(p.Status.StartTime) {
		fail("address %s after %s, start %v after %v", p.Status.PodIP, was.Status.PodIP, p.Status.StartTime, was.Status.StartTime)
	}
	for _, before := range slices.Concat(was.Status.InitContainerStatuses, was.Status.ContainerStatuses) {
		for _, s := range all {
			if s.Name == before.Name && s.RestartCount < before.RestartCount {
				fail("%s: %d restarts after %d", s.Name, s.RestartCount, before.RestartCount)
			}
		}
	}
}
