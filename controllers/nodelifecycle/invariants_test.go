package nodelifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

// start runs the controller until stop is called.
func start(env *kapoktest.Env) (stop func()) {
	options := controllers.Options{Names: []string{name}}
	options.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(env.Config(), options)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(env.Context())
	done := make(chan struct{})
	env.Go(func(context.Context) error {
		defer close(done)
		return m.Start(ctx)
	})
	return func() {
		cancel()
		<-done
	}
}

// TestInvariants lets nodes of two zones fall silent, become ready and unready, come and go, and
// the controller start again, at random:
//
//   - No node is lost before its grace period is over, and none stays after it.
//   - While no node of any zone is ready, none has a taint NoExecute of this controller.
//   - A ready node has none of its taints.
//   - In a zone, ten seconds are between two nodes that get a taint NoExecute.
//   - In the end, each node that is not ready has its taint, if any node is ready and not too many
//     in its zone are not.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h := &history{env: env, r: rand.New(rand.NewPCG(seed, uint64(i))), nodes: map[string]*kubelet{}, last: map[string]time.Time{}}
				h.play(t)
			})
		})
	}
}

// A kubelet is what the test does for a node.
type kubelet struct {
	zone    string
	silent  bool
	status  corev1.ConditionStatus // as it posts it; "" if it has not
	beat    time.Time
	tainted bool // as the test has seen it last
}

// A history is a random one.
type history struct {
	env      *kapoktest.Env
	r        *rand.Rand
	nodes    map[string]*kubelet
	count    int
	began    time.Time            // of the controller
	disaster time.Time            // since when no node is ready; zero if one is
	recovery time.Time            // when one became ready after that
	last     map[string]time.Time // taint NoExecute, by zone
}

func (h *history) play(t *testing.T) {
	stop := start(h.env)
	h.began = time.Now()
	for range 6 {
		h.create()
	}
	for range 150 {
		switch h.r.IntN(24) {
		case 0:
			if len(h.nodes) < 12 {
				h.create()
			}
		case 1, 2, 3, 4:
			h.one(func(_ string, k *kubelet) { k.silent = !k.silent })
		case 5:
			silent := h.r.IntN(2) == 0
			for _, k := range h.nodes {
				k.silent = silent
			}
		case 6, 7, 8:
			h.one(func(name string, k *kubelet) {
				k.status, k.silent = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[h.r.IntN(2)], false
				post(h.env, name, k.status)
				k.beat = time.Now()
			})
		case 9:
			if h.r.IntN(4) == 0 {
				stop()
				time.Sleep(time.Duration(h.r.IntN(60)) * time.Second)
				stop = start(h.env)
				h.began, h.last = time.Now(), map[string]time.Time{}
			}
		}
		for range 10 { // a step is ten seconds
			time.Sleep(time.Second)
			h.check(t)
		}
		h.beat()
	}
	for range 60 {
		time.Sleep(10 * time.Second)
		h.beat()
	}
	h.end(t)
	stop()
}

func (h *history) one(do func(string, *kubelet)) {
	if names := slices.Sorted(maps.Keys(h.nodes)); len(names) > 0 {
		name := names[h.r.IntN(len(names))]
		do(name, h.nodes[name])
	}
}

func (h *history) create() {
	name, zone := fmt.Sprint("n", h.count), fmt.Sprint("z", h.count%2)
	h.count++
	h.env.Create(newNode(name, zone))
	h.nodes[name] = &kubelet{zone: zone, beat: time.Now()}
}

// beat sends the heartbeats of the nodes that are not silent.
func (h *history) beat() {
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		k := h.nodes[name]
		if k.silent {
			continue
		}
		renew(h.env, name)
		n := newNode(name, "")
		if h.env.Get(n); k.status != "" && status(n) == corev1.ConditionUnknown {
			post(h.env, name, k.status)
		}
		k.beat = time.Now()
	}
}

// check checks what must hold at every moment.
func (h *history) check(t *testing.T) {
	var list corev1.NodeList
	if err := h.env.Client().List(h.env.Context(), &list); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	anyReady := false
	for i := range list.Items {
		anyReady = anyReady || status(&list.Items[i]) == corev1.ConditionTrue
	}
	switch {
	case anyReady && !h.disaster.IsZero():
		h.disaster, h.recovery = time.Time{}, now
	case !anyReady && h.disaster.IsZero():
		h.disaster = now
	}
	for i := range list.Items {
		n := &list.Items[i]
		k := h.nodes[n.Name]
		grace := 50 * time.Second
		if k.status == "" {
			grace = time.Minute
		}
		silence := now.Sub(k.beat)
		lost := status(n) == corev1.ConditionUnknown
		if c := unknownSince(n); lost && c.Sub(k.beat) < grace-time.Second && c.After(k.beat) {
			t.Errorf("%s is lost %v after its heartbeat", n.Name, c.Sub(k.beat))
		}
		// After a disaster and after a start, nodes have their time again.
		if !lost && silence > grace+2*time.Second && now.Sub(h.recovery) > grace+2*time.Second && now.Sub(h.began) > grace+2*time.Second {
			t.Errorf("%s is %s %v after its heartbeat", n.Name, status(n), silence)
		}
		tainted := has(n, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) || has(n, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
		if tainted && !h.disaster.IsZero() && now.Sub(h.disaster) > time.Second && now.Sub(h.began) > time.Second {
			t.Errorf("%s has a taint NoExecute %v after all were lost", n.Name, now.Sub(h.disaster))
		}
		if status(n) == corev1.ConditionTrue && readyFor(n) > time.Second && now.Sub(h.began) > time.Second && len(n.Spec.Taints) > 0 {
			t.Errorf("%s is ready, and has the taints %v", n.Name, n.Spec.Taints)
		}
		if tainted && !k.tainted && now.Sub(h.began) > time.Second {
			if before := h.last[k.zone]; !before.IsZero() && now.Sub(before) < 9*time.Second {
				t.Errorf("%s has its taint %v after another one of its zone", n.Name, now.Sub(before))
			}
			h.last[k.zone] = now
		}
		k.tainted = tainted
	}
}

func transition(n *corev1.Node, of corev1.ConditionStatus) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == of {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func unknownSince(n *corev1.Node) time.Time { return transition(n, corev1.ConditionUnknown) }

func readyFor(n *corev1.Node) time.Duration { return time.Since(transition(n, corev1.ConditionTrue)) }

// end checks what must hold when nothing has happened for ten minutes.
func (h *history) end(t *testing.T) {
	unready, size, any := map[string]int{}, map[string]int{}, false
	nodes := map[string]*corev1.Node{}
	for name, k := range h.nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		h.env.Get(n)
		nodes[name] = n
		size[k.zone]++
		if status(n) == corev1.ConditionTrue {
			any = true
		} else {
			unready[k.zone]++
		}
	}
	for name, n := range nodes {
		z := h.nodes[name].zone
		tooMany := unready[z] < size[z] && unready[z] > 2 && float64(unready[z])/float64(size[z]) >= 0.55
		key := map[corev1.ConditionStatus]string{corev1.ConditionFalse: corev1.TaintNodeNotReady, corev1.ConditionUnknown: corev1.TaintNodeUnreachable}[status(n)]
		if any && !tooMany && key != "" && !has(n, key, corev1.TaintEffectNoExecute) {
			t.Errorf("%s is %s, and has the taints %v", name, status(n), n.Spec.Taints)
		}
		if key != "" && !has(n, key, corev1.TaintEffectNoSchedule) {
			t.Errorf("%s is %s, and has the taints %v", name, status(n), n.Spec.Taints)
		}
	}
}
