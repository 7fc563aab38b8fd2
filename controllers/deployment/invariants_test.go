package deployment_test

import (
	"fmt"
	"math/rand/v2"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// TestInvariants checks what a rolling update promises while templates change at random, and pods
// become ready at random: never more than replicas + maxSurge, and never fewer available than
// replicas - maxUnavailable. No response is lost: a cached read does not wait for a write whose
// outcome is unknown, so that a pod more may be deleted.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, DelayWatch: 0.1, CutWatch: 0.02}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { rollAtRandom(t, env, r, 30) }, opts...)
		})
	}
}

// TestExplore searches for the few faults that make a rolling update break its promises.
func TestExplore(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	faults := kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, DelayWatch: 0.1, CutWatch: 0.02, StaleList: 0.1, Unavailable: 0.02}
	for i := range uint64(3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := seeds.Of(t)
			kapoktest.Explore(t, n, faults, func(t testing.TB, env *kapoktest.Env) {
				rollAtRandom(t, env, rand.New(rand.NewPCG(seed, i)), 15)
			})
		})
	}
}

// rollAtRandom plays one random history.
func rollAtRandom(t testing.TB, env *kapoktest.Env, r *rand.Rand, steps int) {
	run(t, env)
	replicas := 1 + r.Int32N(8)
	surge, unavailable := r.Int32N(4), r.Int32N(4)
	if surge == 0 && unavailable == 0 {
		surge = 1
	}
	d := web(replicas)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
		MaxSurge: new(intstr.FromInt32(surge)), MaxUnavailable: new(intstr.FromInt32(unavailable)),
	}}
	b := &bounds{most: int(replicas + surge), least: int(max(0, replicas-unavailable)), wanted: map[string]int{}, ready: map[string]bool{}}
	b.stop = controllertest.Watch(t, env, b.note, &appsv1.ReplicaSetList{}, &corev1.PodList{})
	env.Create(d)
	finish(env, r, d)
	for range steps {
		switch r.IntN(4) {
		case 0:
			env.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", r.IntN(3)) })
		case 1:
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		default:
			becomeReady(env, r)
		}
	}
	finish(env, r, d)
	if !isComplete(d) {
		t.Errorf("the rollout does not end: %+v", d.Status)
	}
	for _, broken := range b.end() {
		t.Error(broken)
	}
}

// finish lets pods become ready until the rollout is complete, or it has taken too long.
func finish(env *kapoktest.Env, r *rand.Rand, d *appsv1.Deployment) {
	for range 200 {
		if env.Get(d); isComplete(d) {
			return
		}
		becomeReady(env, r)
		time.Sleep(2 * time.Second)
	}
}

func isComplete(d *appsv1.Deployment) bool {
	n, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == n && s.AvailableReplicas == n && s.Replicas == n
}

// becomeReady makes one random pod ready that is not.
func becomeReady(env *kapoktest.Env, r *rand.Rand) {
	var pods corev1.PodList
	if err := env.Client().List(env.Context(), &pods, client.InNamespace("default")); err != nil {
		return // an injected fault
	}
	for _, i := range r.Perm(len(pods.Items)) {
		p := &pods.Items[i]
		if isReady(p) {
			continue
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		_ = env.Client().Status().Update(env.Context(), p) // the pod may be gone
		return
	}
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// bounds watches what must hold at every moment.
type bounds struct {
	most, least int
	stop        func()

	mu      sync.Mutex
	wanted  map[string]int  // spec.replicas by ReplicaSet
	ready   map[string]bool // pods
	reached bool            // least were ready once
	broken  []string
}

func (b *bounds) note(event watch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch o := event.Object.(type) {
	case *appsv1.ReplicaSet:
		if b.wanted[o.Name] = int(*o.Spec.Replicas); event.Type == watch.Deleted {
			delete(b.wanted, o.Name)
		}
		total := 0
		for _, n := range b.wanted {
			total += n
		}
		if total > b.most {
			b.broken = append(b.broken, fmt.Sprintf("%d replicas, at most %d are allowed: %v", total, b.most, b.wanted))
		}
	case *corev1.Pod:
		if b.ready[o.Name] = isReady(o) && o.DeletionTimestamp == nil; !b.ready[o.Name] || event.Type == watch.Deleted {
			delete(b.ready, o.Name)
		}
		b.reached = b.reached || len(b.ready) >= b.least
		if b.reached && len(b.ready) < b.least {
			b.broken = append(b.broken, fmt.Sprintf("%d pods are available, at least %d are promised", len(b.ready), b.least))
		}
	}
}

// end stops the watches, and returns what did not hold.
func (b *bounds) end() []string {
	b.stop()
	return b.broken
}
