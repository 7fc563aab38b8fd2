package scheduler_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// A server is an extender. Its functions may be nil.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []string
	filter func(extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult
	score  map[string]int64
	evict  func(extenderv1.ExtenderPreemptionArgs) extenderv1.ExtenderPreemptionResult
	bind   func(extenderv1.ExtenderBindingArgs) error
}

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb := strings.TrimPrefix(r.URL.Path, "/")
	read := func(to any) {
		if err := json.NewDecoder(r.Body).Decode(to); err != nil {
			panic(err)
		}
	}
	var result any
	pod := ""
	switch verb {
	case "filter":
		var args extenderv1.ExtenderArgs
		read(&args)
		pod, result = args.Pod.Name, s.filter(args)
	case "prioritize":
		var args extenderv1.ExtenderArgs
		read(&args)
		list := extenderv1.HostPriorityList{}
		for host, score := range s.score {
			list = append(list, extenderv1.HostPriority{Host: host, Score: score})
		}
		pod, result = args.Pod.Name, list
	case "preempt":
		var args extenderv1.ExtenderPreemptionArgs
		read(&args)
		pod, result = args.Pod.Name, s.evict(args)
	case "bind":
		var args extenderv1.ExtenderBindingArgs
		read(&args)
		answer := extenderv1.ExtenderBindingResult{}
		if err := s.bind(args); err != nil {
			answer.Error = err.Error()
		}
		pod, result = args.PodName, answer
	}
	s.calls = append(s.calls, pod+" "+verb)
	_ = json.NewEncoder(w).Encode(result)
}

// runExtended runs a scheduler with extenders.
func runExtended(t *testing.T, env *kapoktest.Env, extenders ...configv1.Extender) {
	t.Helper()
	m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := (scheduler.Options{Configuration: &configv1.KubeSchedulerConfiguration{Extenders: extenders}}).Add(m); err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

// await returns when a pod has a state that satisfies a condition.
func await(t *testing.T, env *kapoktest.Env, p *corev1.Pod, is func(state string) bool) string {
	t.Helper()
	w, err := env.Client().Watch(env.Context(), &corev1.PodList{}, client.InNamespace(p.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	late := time.After(30 * time.Second)
	for {
		if got := state(env, p); is(got) {
			return got
		}
		select {
		case <-w.ResultChan():
		case <-late:
			t.Fatalf("pod %s has %q", p.Name, state(env, p))
		}
	}
}

func names(args extenderv1.ExtenderArgs) (all []string) {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	for _, n := range args.Nodes.Items {
		all = append(all, n.Name)
	}
	return all
}

// TestExtender checks an extender that filters, scores and binds, with and without a cache of
// nodes.
func TestExtender(t *testing.T) {
	for _, caches := range []bool{true, false} {
		t.Run(fmt.Sprint("caches ", caches), func(t *testing.T) {
			env := kapoktest.Start(t)
			s := newServer(t)
			s.score = map[string]int64{"b": 10}
			s.filter = func(args extenderv1.ExtenderArgs) (r extenderv1.ExtenderFilterResult) {
				kept := slices.DeleteFunc(names(args), func(name string) bool { return name == "c" || args.Pod.Name == "none" })
				if args.NodeNames != nil {
					r.NodeNames = &kept
				} else {
					r.Nodes = &corev1.NodeList{}
					for _, name := range kept {
						r.Nodes.Items = append(r.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
					}
				}
				r.FailedNodes = extenderv1.FailedNodesMap{"a": "taken", "c": "taken"}
				r.FailedAndUnresolvableNodes = extenderv1.FailedNodesMap{"c": "no GPU"}
				return r
			}
			s.bind = func(args extenderv1.ExtenderBindingArgs) error {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName}}
				return env.Client().SubResource("binding").Create(env.Context(), p, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"bound-by": "extender"}, UID: args.PodUID}, Target: corev1.ObjectReference{Kind: "Node", Name: args.Node},
				})
			}
			runExtended(t, env, configv1.Extender{
				URLPrefix: s.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 10, NodeCacheCapable: caches,
			})
			for _, name := range []string{"a", "b", "c"} {
				createNode(env, node(name, "1"))
			}
			p := pod("p", "100m")
			env.Create(p)
			bound := func(state string) bool { return state == "a" || state == "b" || state == "c" }
			// The scheduler may have seen only some of the nodes.
			if got := await(t, env, p, bound); got == "c" || p.Annotations["bound-by"] != "extender" {
				t.Errorf("the pod is on %q, bound by %q", got, p.Annotations["bound-by"])
			}
			second := pod("second", "100m")
			env.Create(second)
			if got := await(t, env, second, bound); got != "b" {
				t.Errorf("the pod is on %q, want b", got)
			}
			none := pod("none", "100m")
			env.Create(none)
			const want = "Unschedulable: 0/3 nodes are available: 1 no GPU, 1 taken. preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
			await(t, env, none, func(state string) bool { return state == want })
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Contains(s.calls, "second prioritize") || !slices.Contains(s.calls, "second bind") {
				t.Errorf("calls %q", s.calls)
			}
		})
	}
}

// TestExtenderFails checks an extender that does not respond as it should, and one that can be
// ignored.
func TestExtenderFails(t *testing.T) {
	env := kapoktest.Start(t)
	s, gone := newServer(t), newServer(t)
	gone.Close()
	s.filter = func(args extenderv1.ExtenderArgs) (r extenderv1.ExtenderFilterResult) {
		kept := names(args)
		switch args.Pod.Name {
		case "error":
			r.Error = "out of order"
		case "liar":
			kept = []string{"elsewhere"}
		}
		r.NodeNames = &kept
		return r
	}
	s.bind = func(extenderv1.ExtenderBindingArgs) error { return fmt.Errorf("no") }
	runExtended(t, env,
		configv1.Extender{URLPrefix: gone.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 1, Ignorable: true},
		configv1.Extender{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true})
	createNode(env, node("a", "1"))
	createNode(env, node("b", "1"))
	for name, want := range map[string]string{
		"error": "SchedulerError: out of order",
		"liar":  fmt.Sprintf(`SchedulerError: extender %q claims a filtered node "elsewhere" which is not found in the input node list`, s.URL),
	} {
		p := pod(name, "100m")
		env.Create(p)
		await(t, env, p, func(state string) bool { return state == want })
	}
	good := pod("good", "100m")
	env.Create(good)
	await(t, env, good, func(state string) bool { return state == "a" || state == "b" })
}

// TestExtenderPreempts checks an extender that chooses the victims.
func TestExtenderPreempts(t *testing.T) {
	env := kapoktest.Start(t)
	s := newServer(t)
	s.evict = func(args extenderv1.ExtenderPreemptionArgs) extenderv1.ExtenderPreemptionResult {
		all := map[string]*extenderv1.MetaVictims{}
		for node, victims := range args.NodeNameToMetaVictims {
			if node == "b" {
				all[node] = victims
			}
		}
		return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: all}
	}
	runExtended(t, env, configv1.Extender{URLPrefix: s.URL, PreemptVerb: "preempt", NodeCacheCapable: true})
	env.Create(priorityClass("high", 1000))
	on := map[string]*corev1.Pod{}
	for _, name := range []string{"a", "b"} {
		createNode(env, node(name, "1"))
		on[name] = pod("low-"+name, "800m")
		on[name].Spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
		env.Create(on[name])
		await(t, env, on[name], func(state string) bool { return state == name })
	}
	high := pod("high", "800m")
	high.Spec.PriorityClassName = "high"
	env.Create(high)
	const want = "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node b, preempting 1 victims"
	await(t, env, high, func(state string) bool { return state == want || state == "b" })
	env.Get(on["a"])
	if on["a"].DeletionTimestamp != nil {
		t.Error("the pod on the other node is deleted")
	}
}
