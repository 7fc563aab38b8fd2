package endpointslice_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names are those of the controllers of endpoints, which are tested together.
var names = []string{"endpointslice", "endpoint", "endpointslicemirroring"}

// TestInvariants checks that slices and Endpoints show the pods of their Services after random
// histories, and that no address is in two slices of a Service.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i)))}
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, Lost: 0.02, DelayWatch: 0.1, CutWatch: 0.02, Forget: 0.005,
				}))
			}
			kapoktest.Bubble(t, h.play, opts...)
		})
	}
}

// A history is random changes of Services, pods and slices.
type history struct {
	r    *rand.Rand
	pods int // created so far
}

func (h *history) play(t *testing.T, env *kapoktest.Env) {
	for _, name := range []string{"n1", "n2"} {
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	controllertest.Run(t, env, names...)
	for range 80 {
		h.step(env)
		if h.r.IntN(3) == 0 {
			time.Sleep(time.Duration(h.r.IntN(3000)) * time.Millisecond)
		}
	}
	env.EndFaults()
	time.Sleep(time.Hour) // the longest backoff is 1,000 s
	check(t, env)
	if n := controllertest.Writes(env, 2*time.Hour); n > 0 {
		t.Errorf("%d writes at rest", n)
	}
}

func (h *history) step(env *kapoktest.Env) {
	switch h.r.IntN(9) {
	case 0, 1, 2:
		h.pods++
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", h.pods), Labels: h.labels()},
			Spec:       corev1.PodSpec{NodeName: h.pick("n1", "n2"), Containers: []corev1.Container{{Name: "c", Image: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + h.r.IntN(2))}}}}},
		}
		env.Create(p)
		h.run(env, p)
	case 3:
		if p := h.pod(env); p != nil {
			h.run(env, p)
		}
	case 4:
		if p := h.pod(env); p != nil {
			update(env, p, func() { p.Labels = h.labels() })
		}
	case 5:
		if p := h.pod(env); p != nil {
			_ = env.Client().Delete(env.Context(), p, client.GracePeriodSeconds(int64(h.r.IntN(2)*30)))
		}
	case 6:
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: h.pick("a", "b", "c"), Namespace: "default"}}
		if !env.Exists(s) {
			s.Spec = corev1.ServiceSpec{Selector: h.labels(), Ports: []corev1.ServicePort{{Port: 80, TargetPort: intOrString(h.pick("http", "80"))}}}
			env.Create(s)
			return
		}
		env.Get(s)
		update(env, s, func() { s.Spec.Selector, s.Spec.PublishNotReadyAddresses = h.labels(), h.r.IntN(2) == 0 })
	case 7:
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: h.pick("a", "b", "c"), Namespace: "default"}}
		if env.Exists(s) {
			env.Delete(s)
		}
	case 8: // a user meddles
		var list discoveryv1.EndpointSliceList
		if env.Client().List(env.Context(), &list, client.InNamespace("default")) != nil || len(list.Items) == 0 {
			return
		}
		s := &list.Items[h.r.IntN(len(list.Items))]
		if s.Name == "kubernetes" {
			return
		}
		if h.r.IntN(2) == 0 {
			_ = env.Client().Delete(env.Context(), s)
		} else {
			s.Endpoints = nil
			_ = env.Client().Update(env.Context(), s)
		}
	}
}

// update changes an object that may be gone, or refused by an injected fault.
func update(env *kapoktest.Env, o client.Object, change func()) {
	change()
	_ = env.Client().Update(env.Context(), o)
}

func (h *history) pick(of ...string) string { return of[h.r.IntN(len(of))] }

func (h *history) labels() map[string]string {
	all := map[string]string{"app": h.pick("web", "database")}
	if h.r.IntN(2) == 0 {
		all["tier"] = h.pick("x", "y")
	}
	return all
}

func (h *history) pod(env *kapoktest.Env) *corev1.Pod {
	var list corev1.PodList
	if env.Client().List(env.Context(), &list, client.InNamespace("default")) != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[h.r.IntN(len(list.Items))]
}

// run gives a pod an address, and makes it ready or not.
func (h *history) run(env *kapoktest.Env, p *corev1.Pod) {
	if p.Status.PodIP == "" {
		p.Status.PodIP = fmt.Sprintf("10.0.%d.%d", h.r.IntN(250), 1+h.r.IntN(250))
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	p.Status.Phase = corev1.PodRunning
	if h.r.IntN(10) == 0 {
		p.Status.Phase = corev1.PodFailed
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[h.r.IntN(2)]}}
	_ = env.Client().Status().Update(env.Context(), p)
}

// check compares the slices and the Endpoints of all Services with their pods.
func check(t *testing.T, env *kapoktest.Env) {
	var services corev1.ServiceList
	var pods corev1.PodList
	var all discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &pods, &all} {
		if err := env.Client().List(env.Context(), list, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
	}
	owned := 0
	for i := range services.Items {
		s := &services.Items[i]
		if s.Spec.Selector == nil {
			continue
		}
		want := map[string]string{} // by pod
		inEndpoints := map[string]bool{}
		for _, p := range pods.Items {
			ended := p.Status.Phase == corev1.PodFailed
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) || ended || p.Status.PodIP == "" {
				continue
			}
			serving := p.Status.Conditions[0].Status == corev1.ConditionTrue
			ready := s.Spec.PublishNotReadyAddresses || serving && p.DeletionTimestamp == nil
			want[p.Name] = fmt.Sprint(p.Status.PodIP, ready, serving, p.DeletionTimestamp != nil)
			if s.Spec.PublishNotReadyAddresses || p.DeletionTimestamp == nil {
				inEndpoints[p.Name] = ready
			}
		}
		got := map[string]string{}
		for _, slice := range all.Items {
			if slice.Labels[discoveryv1.LabelServiceName] != s.Name {
				continue
			}
			owned++
			for _, e := range slice.Endpoints {
				if got[e.TargetRef.Name] != "" {
					t.Errorf("pod %s is in two slices of Service %s", e.TargetRef.Name, s.Name)
				}
				got[e.TargetRef.Name] = fmt.Sprint(e.Addresses[0], *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("slices of Service %s have\n%v, want\n%v", s.Name, got, want)
		}
		checkEndpoints(t, env, s, inEndpoints)
	}
	if extra := len(all.Items) - owned - 1; extra > 0 { // one is of the Service kubernetes
		t.Errorf("%d slices have no Service", extra)
	}
}

// checkEndpoints compares the Endpoints of a Service with its pods, by whether they are ready.
func checkEndpoints(t *testing.T, env *kapoktest.Env, s *corev1.Service, want map[string]bool) {
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}}
	env.Get(e)
	got := map[string]bool{}
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			got[a.TargetRef.Name] = true
		}
		for _, a := range subset.NotReadyAddresses {
			got[a.TargetRef.Name] = false
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("Endpoints of Service %s have %v, want %v", s.Name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
