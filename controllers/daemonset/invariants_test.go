package daemonset_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// TestInvariants checks what DaemonSets promise while templates and nodes change at random, pods
// become ready, fail and end at random, and the controller restarts:
//
//   - A node has at most one pod that has not ended, and two during an update that surges, of which
//     one has the latest revision and the other an earlier one.
//   - Pods are for nodes that fit when they are created.
//   - While only the template changes, at most maxUnavailable nodes have no ready pod after all had
//     one once, and at most maxSurge nodes have two pods.
//   - With OnDelete, a change of the template deletes no pod.
//   - In the end each node that fits has a ready pod of the template, no other node has one, except
//     for those where a pod stays, and the status is that of the pods.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 36 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i))), strategy: strategy(i % 3), mode: mode(i / 3 % 3)}
			var opts []kapoktest.Option
			switch i / 9 {
			case 1, 2: // what a controller must never notice
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, DelayWatch: 0.1, CutWatch: 0.02}))
			case 3: // a creation whose response is lost is repeated: only the end is checked
				h.lossy = true
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, Lost: 0.05, DelayWatch: 0.1, CutWatch: 0.02, Duplicate: 0.05}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h.env = env
				h.play(t)
			}, opts...)
		})
	}
}

type strategy int

const (
	replaces strategy = iota // maxUnavailable
	surges                   // maxSurge
	onDelete
)

// A mode is what happens in a history.
type mode int

const (
	updates    mode = iota // of the template
	places                 // changes of nodes
	everything             // both, and pods that fail
)

// A history is a random one of a DaemonSet and nodes.
type history struct {
	env      *kapoktest.Env
	r        *rand.Rand
	strategy strategy
	mode     mode
	lossy    bool
	set      *appsv1.DaemonSet
	limit    int // of the strategy
	bounds   bounds
	stop     func() // ends the controller
}

const allNodes = 5

func nodeName(i int) string { return fmt.Sprint("n", i) }

func (h *history) play(t *testing.T) {
	h.start(t)
	defer func() { h.stop() }()
	for i := range allNodes {
		createNode(h.env, nodeName(i), map[string]string{"on": "yes"})
	}
	h.limit = 1 + h.r.IntN(3)
	h.set = agent("agent", map[string]string{"on": "yes"})
	strategy := &h.set.Spec.UpdateStrategy
	zero, limit := intstr.FromInt32(0), intstr.FromInt(h.limit)
	switch h.strategy {
	case replaces:
		strategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &limit, MaxSurge: &zero}
	case surges:
		strategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &zero, MaxSurge: &limit}
	case onDelete:
		strategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	}
	h.bounds = bounds{history: h, pods: map[types.UID]*seen{}}
	h.bounds.watch(t)
	h.env.Create(h.set)
	h.finish(t)
	for range 50 {
		if h.r.IntN(20) == 0 {
			h.stop()
			h.start(t)
		}
		switch h.r.IntN(6) {
		case 0:
			if h.mode != places {
				h.env.Update(h.set, func() { h.set.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("agent:%d", h.r.IntN(3)) })
			}
		case 1:
			time.Sleep(time.Duration(h.r.IntN(3000)) * time.Millisecond)
		case 2:
			if h.mode == everything {
				h.fail()
			}
		case 3:
			if h.mode != updates {
				h.changeNode()
			}
		default:
			h.advance()
		}
	}
	h.finish(t)
	for _, broken := range h.bounds.end() {
		t.Error(broken)
	}
}

// start runs the controller, with an empty cache.
func (h *history) start(t *testing.T) {
	o := controllers.Options{Names: []string{"daemonset"}}
	o.Manager.Logger = logr.Discard() // refused requests are part of the test
	m, err := controllers.New(h.env.Config(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.env.Context())
	ended := make(chan struct{})
	h.env.Go(func(context.Context) error {
		defer close(ended)
		return m.Start(ctx)
	})
	h.stop = func() {
		cancel()
		<-ended
	}
}

// changeNode creates, deletes, labels or taints a node.
func (h *history) changeNode() {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(h.r.IntN(allNodes))}}
	if !h.env.Exists(n) {
		createNode(h.env, n.Name, map[string]string{"on": "yes"})
		return
	}
	switch h.r.IntN(5) {
	case 0:
		h.env.Delete(n)
	case 1:
		h.env.Update(n, func() { n.Labels = map[string]string{"on": []string{"yes", "no"}[h.r.IntN(2)]} })
	default:
		h.env.Update(n, func() {
			n.Spec.Taints = nil
			if effect := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}[h.r.IntN(3)]; effect != "" {
				n.Spec.Taints = []corev1.Taint{{Key: "special", Effect: effect}}
			}
		})
	}
}

// fitting returns whether the set runs on the nodes that exist, and whether a pod may stay there.
func (h *history) fitting() (runs, stays map[string]bool, ok bool) {
	var list corev1.NodeList
	if err := h.env.Client().List(h.env.Context(), &list); err != nil {
		return nil, nil, false
	}
	runs, stays = map[string]bool{}, map[string]bool{}
	for _, n := range list.Items {
		is := n.Labels["on"] == "yes"
		runs[n.Name] = is && len(n.Spec.Taints) == 0
		stays[n.Name] = is && (len(n.Spec.Taints) == 0 || n.Spec.Taints[0].Effect == corev1.TaintEffectNoSchedule)
	}
	return runs, stays, true
}

// shuffled returns the pods in random order.
func (h *history) shuffled() []*corev1.Pod {
	var list corev1.PodList
	if err := h.env.Client().List(h.env.Context(), &list, client.InNamespace("default")); err != nil {
		return nil // an injected fault
	}
	var all []*corev1.Pod
	for _, i := range h.r.Perm(len(list.Items)) {
		all = append(all, &list.Items[i])
	}
	return all
}

// advance ends a pod that is being deleted or whose node has gone, binds one, or makes one ready.
// Errors are injected ones, or the pod has gone.
func (h *history) advance() {
	ctx, c := h.env.Context(), h.env.Client()
	_, stays, ok := h.fitting()
	if !ok {
		return
	}
	for _, p := range h.shuffled() {
		_, exists := stays[nodeOf(p)]
		switch {
		case p.DeletionTimestamp != nil, p.Spec.NodeName != "" && !exists:
			_ = c.Delete(ctx, p, client.GracePeriodSeconds(0))
			return
		case p.Spec.NodeName == "" && exists && h.r.IntN(2) == 0:
			_ = c.SubResource("binding").Create(ctx, p, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeOf(p)}})
			return
		case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending:
			makeReady(p)
			_ = c.Status().Update(ctx, p)
			return
		}
	}
}

// fail ends or deletes a pod.
func (h *history) fail() {
	pods := h.shuffled()
	if len(pods) == 0 {
		return
	}
	p := pods[0]
	if h.r.IntN(2) == 0 {
		_ = h.env.Client().Delete(h.env.Context(), p)
		return
	}
	p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil
	_ = h.env.Client().Status().Update(h.env.Context(), p)
}

// finish lets pods advance until the set is as it asks to be.
func (h *history) finish(t *testing.T) {
	why := ""
	for range 1000 {
		if why = h.incomplete(); why == "" {
			return
		}
		h.advance()
		time.Sleep(2 * time.Second)
	}
	t.Errorf("the set does not become complete: %s; status %+v", why, h.set.Status)
}

// incomplete returns what is missing.
func (h *history) incomplete() string {
	h.env.Get(h.set)
	runs, stays, ok := h.fitting()
	if !ok {
		return "the nodes are not known"
	}
	on := map[string]int{}
	image, updated, misplaced := h.set.Spec.Template.Spec.Containers[0].Image, 0, 0
	for _, p := range h.shuffled() {
		node := nodeOf(p)
		isCurrent := p.Spec.Containers[0].Image == image
		switch {
		case p.DeletionTimestamp != nil:
			return p.Name + " is being deleted"
		case !isReady(p):
			return p.Name + " is not ready"
		case !stays[node]:
			return fmt.Sprintf("%s is on %s", p.Name, node)
		case !isCurrent && runs[node] && h.strategy != onDelete:
			return fmt.Sprintf("%s has the image %s", p.Name, p.Spec.Containers[0].Image)
		}
		if on[node]++; on[node] > 1 {
			return fmt.Sprintf("%d pods on %s", on[node], node)
		}
		switch {
		case !runs[node]:
			misplaced++
		case isCurrent:
			updated++
		}
	}
	desired := 0
	for node, is := range runs {
		if is {
			desired++
			if on[node] == 0 {
				return "no pod on " + node
			}
		}
	}
	n := func(is int) int32 { return int32(is) }
	s := h.set.Status
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: n(desired), CurrentNumberScheduled: n(desired), NumberReady: n(desired), NumberAvailable: n(desired),
		UpdatedNumberScheduled: n(updated), NumberMisscheduled: n(misplaced), ObservedGeneration: h.set.Generation,
		CollisionCount: s.CollisionCount,
	}
	if fmt.Sprint(s) != fmt.Sprint(want) {
		return fmt.Sprintf("the status is not %+v", want)
	}
	return ""
}

// nodeOf returns the node of a pod, or the one that it is for.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

// seen is a pod as the last event has it.
type seen struct {
	node, hash             string
	ready, ended, deleting bool
}

// bounds watches what must hold at every moment.
type bounds struct {
	*history
	stop    context.CancelFunc
	watches sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.UID]*seen
	reached bool // all nodes had a ready pod once
	broken  []string
	events  int
}

// watch notes the events of pods until end. A watch that a fault ends is followed by a list.
func (b *bounds) watch(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	b.watches.Go(func() {
		for ctx.Err() == nil {
			var list corev1.PodList
			if err := b.env.Client().List(ctx, &list, client.InNamespace("default")); err != nil {
				continue
			}
			b.reset(list.Items)
			from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
			w, err := b.env.Client().Watch(ctx, &corev1.PodList{}, client.InNamespace("default"), from)
			if err != nil {
				continue
			}
			for event := range w.ResultChan() {
				b.note(event)
			}
			w.Stop()
		}
	})
}

func (b *bounds) reset(pods []corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.pods)
	for i := range pods {
		b.put(&pods[i])
	}
}

// put notes the state of a pod.
func (b *bounds) put(p *corev1.Pod) {
	b.pods[p.UID] = &seen{
		node: nodeOf(p), hash: p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey],
		ready: isReady(p) && p.DeletionTimestamp == nil, deleting: p.DeletionTimestamp != nil,
		ended: p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
	}
}

func (b *bounds) note(event watch.Event) {
	p, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pods[p.UID] == nil {
		b.created(p)
	}
	if event.Type == watch.Deleted {
		delete(b.pods, p.UID)
	} else {
		b.put(p)
	}
	b.events++
	if b.mode == updates && b.strategy == onDelete && !b.lossy && (event.Type == watch.Deleted || p.DeletionTimestamp != nil) {
		b.breaks("%s is deleted, which nothing asks for", p.Name)
	}
	if !b.lossy {
		b.check()
	}
}

// created checks a pod that has appeared.
func (b *bounds) created(p *corev1.Pod) {
	if !strings.HasPrefix(p.Name, "agent-") || p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == "" || nodeOf(p) == "" || metav1.GetControllerOf(p) == nil {
		b.breaks("%s has labels %v, node %q", p.Name, p.Labels, nodeOf(p))
	}
	if len(p.Spec.Tolerations) < 6 {
		b.breaks("%s has tolerations %v", p.Name, p.Spec.Tolerations)
	}
}

// check checks the pods of all nodes.
func (b *bounds) check() {
	on, ready, hashes := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, s := range b.pods {
		if s.ended {
			continue
		}
		ready[s.node] = ready[s.node] || s.ready
		if b.strategy == surges && s.deleting {
			continue // a new pod may come beside it
		}
		on[s.node]++
		if key := s.node + " " + s.hash; hashes[key] {
			b.breaks("%s has two pods of a revision", s.node)
		} else {
			hashes[key] = true
		}
	}
	available, doubled := 0, 0
	for i := range allNodes {
		node := nodeName(i)
		if ready[node] {
			available++
		}
		if on[node] > 1 {
			doubled++
		}
		most := 1
		if b.strategy == surges {
			most = 2
		}
		if on[node] > most {
			b.breaks("%s has %d pods", node, on[node])
		}
	}
	if b.mode != updates {
		return
	}
	least := allNodes
	if b.strategy == replaces {
		least -= b.limit
	}
	b.reached = b.reached || available == allNodes
	if b.reached && available < least {
		b.breaks("%d nodes have a ready pod, at least %d are promised", available, least)
	}
	if b.strategy == surges && doubled > b.limit {
		b.breaks("%d nodes have two pods, at most %d are promised", doubled, b.limit)
	}
}

func (b *bounds) breaks(format string, args ...any) {
	b.broken = append(b.broken, fmt.Sprintf(format, args...))
}

// end stops the watch, and returns what did not hold.
func (b *bounds) end() []string {
	b.stop()
	b.watches.Wait()
	if b.events < 10 {
		b.breaks("only %d events were checked", b.events)
	}
	return b.broken
}
