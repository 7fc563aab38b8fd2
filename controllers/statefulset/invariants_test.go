package statefulset_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// TestInvariants checks what StatefulSets promise while templates and sizes change at random, and
// pods become ready, fail and end at random:
//
//   - In order, a pod is created only after those with lower ordinals have become ready, and a pod
//     that is too many is deleted only after those with higher ordinals have gone.
//   - No pod gets another identity, and none is created before the earlier one of its name has
//     gone.
//   - Pods below the partition keep the first template until an update has completed.
//   - An update leaves at least replicas - maxUnavailable pods ready.
//   - In the end there are the pods that the set asks for, and the status tells so.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 24 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, Lost: 0.02, DelayWatch: 0.1, CutWatch: 0.02}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h := &history{env: env, r: r, mode: mode(i / 2 % 3)}
				h.play(t, 40)
			}, opts...)
		})
	}
}

// TestExplore searches for the few faults that make a StatefulSet break its promises.
func TestExplore(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	for _, m := range []mode{updates, sizes, everything} {
		t.Run(m.String(), func(t *testing.T) {
			seed := seeds.Of(t)
			kapoktest.Explore(t, n, explored, func(t testing.TB, env *kapoktest.Env) {
				h := &history{env: env, r: rand.New(rand.NewPCG(seed, uint64(m))), mode: m}
				h.play(t, 20)
			})
		})
	}
}

// explored are the faults of TestExplore.
var explored = kapoktest.Faults{
	Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.02, Duplicate: 0.02, DelayWatch: 0.1, CutWatch: 0.02, StaleList: 0.1, Unavailable: 0.02,
}

// A mode is what happens in a history. The promises of order do not hold when pods fail meanwhile.
type mode int

const (
	updates    mode = iota // of the template
	sizes                  // changes of spec.replicas
	everything             // both, and pods that fail
)

func (m mode) String() string { return [...]string{"updates", "sizes", "everything"}[m] }

// A history is a random one of a StatefulSet.
type history struct {
	env    *kapoktest.Env
	r      *rand.Rand
	mode   mode
	set    *appsv1.StatefulSet
	bounds bounds
}

func (h *history) play(t testing.TB, steps int) {
	run(t, h.env)
	replicas := 1 + h.r.Int32N(5)
	h.set = web(replicas)
	partition, unavailable := h.r.Int32N(replicas), 1+h.r.Int32N(3)
	h.set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
		Partition: &partition, MaxUnavailable: new(intstr.FromInt32(unavailable)),
	}}
	if h.r.IntN(2) == 0 {
		h.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	h.bounds = bounds{
		ordered: h.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement, partition: int(partition),
		least: int(max(0, replicas-unavailable)), mode: h.mode, pods: map[string]*seen{},
	}
	h.bounds.stop = controllertest.Watch(t, h.env, h.bounds.note, &corev1.PodList{}, &appsv1.StatefulSetList{})
	h.env.Create(h.set)
	h.finish(t)
	for range steps {
		switch h.r.IntN(6) {
		case 0:
			if h.mode == sizes {
				continue
			}
			h.env.Update(h.set, func() { h.set.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", h.r.IntN(3)) })
		case 1:
			time.Sleep(time.Duration(h.r.IntN(3000)) * time.Millisecond)
		case 2:
			if h.mode == everything {
				h.fail()
			}
		case 3:
			if h.mode != updates {
				n := 1 + h.r.Int32N(5) // at 0, an update is complete, and every template the first one
				h.env.Update(h.set, func() { h.set.Spec.Replicas = &n })
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

// pods returns the pods in random order.
func (h *history) pods() []*corev1.Pod {
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

// advance ends a pod that is being deleted, binds one, or makes one ready. Errors are injected
// ones, or the pod has gone.
func (h *history) advance() {
	ctx, c := h.env.Context(), h.env.Client()
	for _, p := range h.pods() {
		switch {
		case p.DeletionTimestamp != nil:
			_ = c.Delete(ctx, p, client.GracePeriodSeconds(0))
			return
		case p.Spec.NodeName == "" && h.r.IntN(2) == 0:
			_ = c.SubResource("binding").Create(ctx, p, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}})
			return
		case p.Status.Phase == corev1.PodPending:
			makeReady(p)
			_ = c.Status().Update(ctx, p)
			return
		case p.Status.Phase == corev1.PodFailed && ordinal(p) >= int(*h.set.Spec.Replicas):
			// As in Kubernetes, pods that are too many wait in order until all others can serve. Two of
			// them that have failed wait for each other, until a user deletes one.
			_ = c.Delete(ctx, p, client.GracePeriodSeconds(0))
			return
		}
	}
}

// fail ends or deletes a pod.
func (h *history) fail() {
	pods := h.pods()
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
func (h *history) finish(t testing.TB) {
	why := ""
	for range 400 {
		if why = h.incomplete(); why == "" {
			return
		}
		h.advance()
		time.Sleep(2 * time.Second)
	}
	t.Errorf("the set does not become complete: %s; status %+v, policy %s", why, h.set.Status, h.set.Spec.PodManagementPolicy)
	for _, p := range h.pods() {
		t.Logf("%s: %s, ready %v, deleting %v, node %q, image %s", p.Name, p.Status.Phase, isReady(p), p.DeletionTimestamp, p.Spec.NodeName, p.Spec.Containers[0].Image)
	}
}

// incomplete returns what is missing.
func (h *history) incomplete() string {
	h.env.Get(h.set)
	n, s := int(*h.set.Spec.Replicas), h.set.Status
	pods := h.pods()
	if len(pods) != n {
		return fmt.Sprintf("%d pods, not %d", len(pods), n)
	}
	updated := 0
	for _, p := range pods {
		image, want := p.Spec.Containers[0].Image, h.set.Spec.Template.Spec.Containers[0].Image
		if !isReady(p) || p.DeletionTimestamp != nil {
			return p.Name + " is not ready"
		}
		if ordinal(p) >= h.bounds.partition && image != want {
			return fmt.Sprintf("%s has image %s, not %s", p.Name, image, want)
		}
		if image == want {
			updated++
		}
	}
	if s.ObservedGeneration != h.set.Generation || int(s.Replicas) != n || int(s.ReadyReplicas) != n || int(s.AvailableReplicas) != n || int(s.UpdatedReplicas) != updated {
		return "the status is not that of the pods"
	}
	return ""
}

func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(strings.TrimPrefix(p.Name, "web-"))
	if err != nil {
		return -1
	}
	return n
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// seen is the last pod of a name.
type seen struct {
	uid              types.UID
	ready, wasReady  bool
	deleting, exists bool
}

// bounds watches what must hold at every moment.
type bounds struct {
	ordered   bool
	partition int
	least     int // pods that are ready at any time after they were once
	mode      mode
	stop      func()

	mu      sync.Mutex
	pods    map[string]*seen
	reached bool
	broken  []string

	first    string  // revision of the set
	complete uint64  // resourceVersion at which the set had completed an update; 0 if it has not
	below    []below // the partition, with another template than the first
}

// below is a pod below the partition.
type below struct {
	created uint64 // resourceVersion
	text    string
}

// noteSet notes when the set completes an update: then its pods have the template of the update,
// those below the partition, too.
func (b *bounds) noteSet(set *appsv1.StatefulSet) {
	if b.first == "" {
		b.first = set.Status.CurrentRevision
	}
	if b.complete == 0 && set.Status.CurrentRevision != b.first {
		b.complete = version(set)
	}
}

// version returns the resourceVersion of an object as a number.
func version(o client.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (b *bounds) note(event watch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch o := event.Object.(type) {
	case *appsv1.StatefulSet:
		b.noteSet(o)
	case *corev1.Pod:
		b.notePod(event.Type, o)
	}
}

func (b *bounds) notePod(event watch.EventType, p *corev1.Pod) {
	was := b.pods[p.Name]
	if was == nil || was.uid != p.UID {
		if was != nil && was.exists {
			b.breaks("%s was replaced before its end", p.Name)
		}
		b.created(p)
		was = &seen{uid: p.UID, exists: true}
		b.pods[p.Name] = was
	}
	was.ready = isReady(p) && p.DeletionTimestamp == nil && event != watch.Deleted
	was.wasReady = was.wasReady || was.ready
	if began := p.DeletionTimestamp != nil || event == watch.Deleted; began && !was.deleting {
		was.deleting = true
		b.deleted(p)
	}
	if event == watch.Deleted {
		was.exists = false
	}
	ready := 0
	for _, s := range b.pods {
		if s.ready {
			ready++
		}
	}
	b.reached = b.reached || ready >= b.least
	if b.reached && ready < b.least && b.mode == updates {
		b.breaks("%d pods are ready, at least %d are promised", ready, b.least)
	}
}

// created checks a pod that has appeared.
func (b *bounds) created(p *corev1.Pod) {
	n := ordinal(p)
	if n < 0 || p.Labels[appsv1.StatefulSetPodNameLabel] != p.Name || p.Labels[appsv1.PodIndexLabel] != strconv.Itoa(n) || p.Spec.Hostname != p.Name {
		b.breaks("%s has labels %v and host name %s", p.Name, p.Labels, p.Spec.Hostname)
	}
	if image := p.Spec.Containers[0].Image; n < b.partition && image != "web:0" {
		b.below = append(b.below, below{version(p), fmt.Sprintf("%s is below the partition %d and has image %s", p.Name, b.partition, image)})
	}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		if before := b.pods[name]; b.ordered && (before == nil || !before.wasReady) {
			b.breaks("%s was created before %s had become ready", p.Name, name)
		}
	}
}

// deleted checks a pod that is being deleted.
func (b *bounds) deleted(p *corev1.Pod) {
	if !b.ordered || b.mode != sizes {
		return
	}
	for name, other := range b.pods {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "web-")); err == nil && n > ordinal(p) && other.exists {
			b.breaks("%s was deleted before %s had gone", p.Name, name)
		}
	}
}

func (b *bounds) breaks(format string, args ...any) {
	b.broken = append(b.broken, fmt.Sprintf(format, args...))
}

// end stops the watches, and returns what did not hold.
func (b *bounds) end() []string {
	b.stop()
	for _, p := range b.below {
		// While sizes change and pods fail, pods that are too many may complete an update, as in
		// Kubernetes: the status counts them among the updated and the ready ones.
		if b.mode != everything || b.complete == 0 || p.created < b.complete {
			b.breaks("%s", p.text)
		}
	}
	return b.broken
}
