package tainteviction_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "taint-eviction-controller"

func newPod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func taint(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func toleration(key string, seconds int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}

// TestInvariants lets taints of nodes come and go, and pods with random tolerations come, at
// random:
//
//   - No pod is evicted before one of the taints of its node has been there for the time for which
//     the pod tolerates it, without a break.
//   - No pod is evicted that tolerates all taints without a limit.
//   - A pod is evicted at the moment when its toleration ends.
//
// With faults of the server, the controller may see a taint late; what it has seen in the end
// counts.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			faults := i%2 == 1
			if faults {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, Lost: 0.02, DelayWatch: 0.1, CutWatch: 0.02}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h := &history{env: env, r: r, faults: faults, taints: map[string]map[string]time.Time{}, pods: map[types.UID]*seen{}}
				h.play(t)
			}, opts...)
		})
	}
}

// A history is a random one. It notes what it does, and what happens.
type history struct {
	env    *kapoktest.Env
	r      *rand.Rand
	faults bool

	mu     sync.Mutex
	taints map[string]map[string]time.Time // of nodes, by key, since when
	pods   map[types.UID]*seen
	broken []string
}

// seen is a pod as the test knows it.
type seen struct {
	pod     *corev1.Pod
	since   time.Time
	planned time.Time // zero: it may stay
	gone    bool
}

func (h *history) play(t *testing.T) {
	controllertest.Run(t, h.env, name)
	for i := range 3 {
		h.env.Create(newNode(fmt.Sprint("n", i)))
		h.taints[fmt.Sprint("n", i)] = map[string]time.Time{}
	}
	stop := func() {}
	if !h.faults {
		stop = h.watch(t)
	}
	for i := range 80 {
		switch h.r.IntN(4) {
		case 0:
			h.create(i)
		case 1:
			h.change()
		default:
			time.Sleep(time.Duration(h.r.IntN(4000)) * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // an event precedes the next change
		h.check()
	}
	time.Sleep(5 * time.Minute)
	h.check()
	stop()
	if h.faults {
		h.compare()
	}
	for _, broken := range h.broken {
		t.Error(broken)
	}
}

// watch notes the time of each deletion.
func (h *history) watch(t *testing.T) (stop func()) {
	w, err := h.env.Client().Watch(t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	for tries := 0; err != nil && tries < 100; tries++ { // injected faults
		w, err = h.env.Client().Watch(t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var watches sync.WaitGroup
	watches.Go(func() {
		for event := range w.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && (p.DeletionTimestamp != nil || event.Type == watch.Deleted) {
				h.deleted(p)
			}
		}
	})
	return func() {
		w.Stop()
		watches.Wait()
	}
}

func (h *history) create(i int) {
	node := fmt.Sprint("n", h.r.IntN(3))
	var tolerations []corev1.Toleration
	for _, key := range []string{"a", "b"} {
		if n := h.r.IntN(5); n > 0 {
			tolerations = append(tolerations, toleration(key, []int64{0, -1, 0, 3, 20}[n]))
		}
	}
	p := newPod(fmt.Sprint("p", i), node, tolerations...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.env.Create(p)
	s := &seen{pod: p, since: time.Now()}
	h.pods[p.UID] = s
	h.plan(s)
}

// change adds or removes a taint of a node.
func (h *history) change() {
	node, key := fmt.Sprint("n", h.r.IntN(3)), []string{"a", "b"}[h.r.IntN(2)]
	h.mu.Lock()
	defer h.mu.Unlock()
	taints := h.taints[node]
	if _, ok := taints[key]; ok {
		delete(taints, key)
	} else {
		taints[key] = time.Now()
	}
	n := newNode(node)
	h.env.Update(n, func() {
		n.Spec.Taints = nil
		for _, key := range []string{"a", "b"} {
			if _, ok := taints[key]; ok {
				n.Spec.Taints = append(n.Spec.Taints, taint(key))
			}
		}
	})
	for _, s := range h.pods {
		if s.pod.Spec.NodeName == node {
			h.plan(s)
		}
	}
}

// plan computes when a pod is to be evicted, after a change.
func (h *history) plan(s *seen) {
	if s.gone {
		return
	}
	if !s.planned.IsZero() && !time.Now().Before(s.planned) {
		return // too late to change it
	}
	wait := int64(-1)
	for key := range h.taints[s.pod.Spec.NodeName] {
		of := h.tolerates(s.pod, key)
		if of != nil && (wait < 0 || *of < wait) {
			wait = *of
		}
	}
	switch now := time.Now(); {
	case wait < 0:
		s.planned = time.Time{}
	case wait == 0 && h.intolerable(s.pod), s.planned.IsZero():
		s.planned = now.Add(time.Duration(wait) * time.Second)
	}
}

// tolerates returns the seconds for which a pod tolerates a taint; nil means without a limit.
func (h *history) tolerates(p *corev1.Pod, key string) *int64 {
	for _, t := range p.Spec.Tolerations {
		if t.Key == key {
			return t.TolerationSeconds
		}
	}
	return new(int64(0))
}

// intolerable reports whether a node has a taint for which a pod has no toleration at all.
func (h *history) intolerable(p *corev1.Pod) bool {
	for key := range h.taints[p.Spec.NodeName] {
		found := false
		for _, t := range p.Spec.Tolerations {
			found = found || t.Key == key
		}
		if !found {
			return true
		}
	}
	return false
}

func (h *history) deleted(p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.pods[p.UID]
	if s == nil || s.gone {
		return
	}
	s.gone = true
	if s.planned.IsZero() || time.Now().Before(s.planned) {
		h.broken = append(h.broken, fmt.Sprintf("%s is evicted at %v, and planned at %v", p.Name, time.Now(), s.planned))
	}
}

// compare compares the pods in the end with what the taints in the end ask for.
func (h *history) compare() {
	for uid, s := range h.pods {
		var p corev1.Pod
		err := errors.New("")
		for tries := 0; client.IgnoreNotFound(err) != nil && tries < 100; tries++ { // injected faults
			err = h.env.Client().Get(h.env.Context(), client.ObjectKeyFromObject(s.pod), &p)
		}
		stays := err == nil && p.UID == uid && p.DeletionTimestamp == nil
		goes := false
		for key := range h.taints[s.pod.Spec.NodeName] {
			goes = goes || h.tolerates(s.pod, key) != nil
		}
		if stays && goes {
			h.broken = append(h.broken, s.pod.Name+" is not evicted")
		}
		if !stays && h.tolerates(s.pod, "a") == nil && h.tolerates(s.pod, "b") == nil {
			h.broken = append(h.broken, s.pod.Name+" is evicted, and tolerates all taints")
		}
	}
}

// check looks for pods that should have been evicted.
func (h *history) check() {
	if h.faults {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.pods {
		if !s.gone && !s.planned.IsZero() && time.Since(s.planned) > 10*time.Millisecond {
			h.broken = append(h.broken, fmt.Sprintf("%s is not evicted at %v, but planned at %v", s.pod.Name, time.Now(), s.planned))
			s.gone = true
		}
	}
}

// TestAtRest counts the writes of a day in which a node has taints, and pods tolerate them.
func TestAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, name)
		n := newNode("n")
		env.Create(n, newPod("stays", "n", toleration("a", -1)), newPod("waits", "n", toleration("a", 1e6)), newPod("goes", "n"))
		env.Update(n, func() { n.Spec.Taints = append(n.Spec.Taints, taint("a")) })
		env.Settle()
		if w := controllertest.Writes(env, 24*time.Hour); w > 0 {
			t.Errorf("%d writes, want none", w)
		}
		if p := newPod("goes", "n"); env.Exists(p) {
			if env.Get(p); p.DeletionTimestamp == nil {
				t.Error("the pod without a toleration stays")
			}
		}
	})
}

// TestRefused counts the requests of an hour in which no pod can be evicted: the pauses become
// longer.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, name)
		n := newNode("n")
		env.Create(n, newPod("p", "n"))
		env.Update(n, func() { n.Spec.Taints = append(n.Spec.Taints, taint("a")) })
		time.Sleep(10 * time.Minute)
		if w := controllertest.Writes(env, time.Hour); w < 1 || w > 10 {
			t.Errorf("%d requests in an hour, want a few", w)
		}
	})
}
