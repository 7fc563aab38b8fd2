package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/framework"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// A probe is a plugin at all extension points except Bind. It records calls, and does what its
// functions say.
type probe struct {
	handle framework.Handle
	events []framework.ClusterEventWithHint
	on     map[string]func(p *corev1.Pod, node string) *framework.Status // by methods
	only   sets.Set[string]
	score  map[string]int64
	limit  time.Duration // of Permit
	to     *framework.PostFilterResult

	mu    sync.Mutex
	calls []string
}

func (p *probe) Name() string { return "Probe" }

func (p *probe) call(method string, pod *corev1.Pod, node string) *framework.Status {
	p.mu.Lock()
	p.calls = append(p.calls, strings.TrimSpace(fmt.Sprint(pod.Name, " ", method, " ", node)))
	do := p.on[method]
	p.mu.Unlock()
	if do != nil {
		return do(pod, node)
	}
	return nil
}

// took returns and forgets the calls.
func (p *probe) took() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}

func (p *probe) PreEnqueue(_ context.Context, pod *corev1.Pod) *framework.Status {
	return p.call("PreEnqueue", pod, "")
}

func (p *probe) PreFilter(_ context.Context, state *framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	state.Write("Probe", pod.Name)
	return &framework.PreFilterResult{NodeNames: p.only}, p.call("PreFilter", pod, fmt.Sprint(len(nodes)))
}

func (p *probe) Filter(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, n framework.NodeInfo) *framework.Status {
	return p.call("Filter", pod, n.Node().Name)
}

func (p *probe) PostFilter(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, nodes map[string]*framework.Status) (*framework.PostFilterResult, *framework.Status) {
	if st := p.call("PostFilter", pod, fmt.Sprint(len(nodes))); st != nil {
		return p.to, st
	}
	return nil, framework.NewStatus(framework.Unschedulable)
}

func (p *probe) PreScore(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	return p.call("PreScore", pod, fmt.Sprint(len(nodes)))
}

func (p *probe) Score(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, n framework.NodeInfo) (int64, *framework.Status) {
	return p.score[n.Node().Name], p.call("Score", pod, n.Node().Name)
}

func (p *probe) NormalizeScore(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, scores []framework.NodeScore) *framework.Status {
	return p.call("NormalizeScore", pod, fmt.Sprint(len(scores)))
}

func (p *probe) Reserve(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	return p.call("Reserve", pod, node)
}

func (p *probe) Unreserve(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, node string) {
	p.call("Unreserve", pod, node)
}

func (p *probe) Permit(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, node string) (*framework.Status, time.Duration) {
	return p.call("Permit", pod, node), p.limit
}

func (p *probe) PreBind(_ context.Context, state *framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	if state.Read("Probe") != pod.Name {
		return framework.AsStatus(errors.New("another state"))
	}
	return p.call("PreBind", pod, node)
}

func (p *probe) PostBind(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, node string) {
	p.call("PostBind", pod, node)
}

func (p *probe) EventsToRegister() []framework.ClusterEventWithHint { return p.events }

// runWith runs a scheduler with a plugin.
func runWith(t *testing.T, env *kapoktest.Env, p *probe) {
	t.Helper()
	m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if p.on == nil {
		p.on = map[string]func(*corev1.Pod, string) *framework.Status{}
	}
	o := scheduler.Options{Plugins: map[string]framework.Factory{"Probe": func(_ runtime.RawExtension, h framework.Handle) (framework.Plugin, error) {
		p.handle = h
		return p, nil
	}}}
	if err := o.Add(m); err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

// state returns the node of a pod, or its condition PodScheduled.
func state(env *kapoktest.Env, p *corev1.Pod) string {
	env.Get(p)
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	return unscheduled(p)
}

// TestPlugin checks which methods of a plugin are called, in which order, and that its scores
// count.
func TestPlugin(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		p := &probe{score: map[string]int64{"b": 100}}
		runWith(t, env, p)
		createNode(env, node("a", "1"))
		createNode(env, node("b", "1"))
		createNode(env, node("tiny", "1m"))
		first := pod("first", "800m")
		env.Create(first)
		env.Settle()
		if got := state(env, first); got != "b" {
			t.Errorf("the pod is on %q, want b", got)
		}
		want := []string{
			"first PreEnqueue", "first PreFilter 3", "first Filter a", "first Filter b", "first PreScore 2", "first Score a", "first Score b", "first NormalizeScore 2",
			"first Reserve b", "first Permit b", "first PreBind b", "first PostBind b",
		}
		if got := p.took(); !slices.Equal(got, want) {
			t.Errorf("calls\n%q\nwant\n%q", got, want)
		}
		env.Create(pod("only", "500m")) // fits a: no scores
		env.Settle()
		want = []string{"only PreEnqueue", "only PreFilter 3", "only Filter a", "only Reserve a", "only Permit a", "only PreBind a", "only PostBind a"}
		if got := p.took(); !slices.Equal(got, want) {
			t.Errorf("calls\n%q\nwant\n%q", got, want)
		}
		env.Create(pod("none", "800m"))
		env.Settle()
		want = []string{"none PreEnqueue", "none PreFilter 3", "none PostFilter 3"}
		if got := p.took(); !slices.Equal(got, want) {
			t.Errorf("calls\n%q\nwant\n%q", got, want)
		}
	})
}

// TestPluginRejects checks the conditions of pods that a plugin rejects at each extension point,
// and that they are retried after the events of the plugin.
func TestPluginRejects(t *testing.T) {
	no := func(code framework.Code) func(*corev1.Pod, string) *framework.Status {
		return func(*corev1.Pod, string) *framework.Status { return framework.NewStatus(code, "not today") }
	}
	const unhelpful = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	for name, tc := range map[string]struct {
		method string
		no     func(*corev1.Pod, string) *framework.Status
		want   string
	}{
		"PreEnqueue": {"PreEnqueue", no(framework.UnschedulableAndUnresolvable), ""},
		"PreFilter":  {"PreFilter", no(framework.UnschedulableAndUnresolvable), "Unschedulable: 0/2 nodes are available: not today." + unhelpful},
		"PreFilter, resolvable": {
			"PreFilter", no(framework.Unschedulable),
			"Unschedulable: 0/2 nodes are available: not today. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
		"Filter": {"Filter", no(framework.UnschedulableAndUnresolvable), "Unschedulable: 0/2 nodes are available: 2 not today." + unhelpful},
		"Filter, resolvable": {
			"Filter", no(framework.Unschedulable),
			"Unschedulable: 0/2 nodes are available: 2 not today. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
		"Reserve": {"Reserve", no(framework.Unschedulable), "Unschedulable: 0/1 nodes are available: 1 not today."},
		"Permit":  {"Permit", no(framework.Unschedulable), "Unschedulable: 0/1 nodes are available: 1 not today."},
	} {
		t.Run(name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				p := &probe{on: map[string]func(*corev1.Pod, string) *framework.Status{tc.method: tc.no}}
				p.events = []framework.ClusterEventWithHint{{
					Resource: &corev1.ConfigMap{}, Actions: framework.Add,
					QueueingHint: func(_ *corev1.Pod, before, after client.Object) framework.QueueingHint {
						if before == nil && after.GetName() == "today" {
							return framework.Queue
						}
						return framework.QueueSkip
					},
				}}
				runWith(t, env, p)
				createNode(env, node("a", "1"))
				createNode(env, node("b", "1"))
				waits := pod("waits", "100m")
				env.Create(waits)
				env.Settle()
				if got := state(env, waits); got != tc.want {
					t.Errorf("condition %q, want %q", got, tc.want)
				}
				p.took()
				env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
				createNode(env, node("c", "1m"))
				env.Settle()
				if got := p.took(); len(got) > 0 && tc.method != "PreFilter" { // which a new node may help as well
					t.Errorf("calls after other events: %q", got)
				}
				p.mu.Lock()
				delete(p.on, tc.method)
				p.mu.Unlock()
				env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "today"}})
				env.Settle()
				if got := state(env, waits); got != "a" && got != "b" {
					t.Errorf("after the event, the pod has %q, want a node", got)
				}
			})
		})
	}
}

// TestPluginVerdicts compares the conditions of pods that a plugin rejects or fails with those that
// were recorded with kube-scheduler, by TestPluginVerdicts of test/oracle.
func TestPluginVerdicts(t *testing.T) {
	data, err := os.ReadFile("testdata/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]framework.Code{
		"Success": framework.Success, "Unschedulable": framework.Unschedulable, "UnschedulableAndUnresolvable": framework.UnschedulableAndUnresolvable,
	}
	cases := 0
	for line := range strings.Lines(string(data)) {
		text, want, is := strings.Cut(strings.TrimSpace(line), ": ")
		if !is || strings.HasPrefix(line, "#") {
			continue
		}
		cases++
		t.Run(text, func(t *testing.T) {
			p := &probe{on: map[string]func(*corev1.Pod, string) *framework.Status{}}
			for field := range strings.FieldsSeq(text) {
				name, value, _ := strings.Cut(field, "=")
				switch name {
				case "score":
					score, err := strconv.ParseInt(value, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					p.score = map[string]int64{"n0": score, "n1": score}
				case "nodes":
					p.only = sets.New(strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
				default:
					p.on[name] = func(*corev1.Pod, string) *framework.Status {
						if value == "Error" {
							return framework.AsStatus(errors.New(name + " says no"))
						}
						return framework.NewStatus(codes[value], name+" says no", "not today")
					}
				}
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				runWith(t, env, p)
				createNode(env, node("n0", "4"))
				createNode(env, node("n1", "4"))
				rejected := pod("p", "100m")
				env.Create(rejected)
				env.Settle()
				if got := state(env, rejected); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
	if cases < 25 {
		t.Errorf("%d cases, want more", cases)
	}
}

// TestPluginFails checks that a plugin that panics, or returns an error or nonsense, fails the pod
// and not the scheduler.
func TestPluginFails(t *testing.T) {
	fails := func(*corev1.Pod, string) *framework.Status { return framework.AsStatus(errors.New("broken")) }
	panics := func(*corev1.Pod, string) *framework.Status { panic("boom") }
	for method, want := range map[string]string{
		"PreEnqueue":     "",
		"PreFilter":      `SchedulerError: running PreFilter plugin "Probe": %s`,
		"Filter":         `SchedulerError: running "Probe" filter plugin: %s`,
		"PreScore":       `SchedulerError: running PreScore plugin "Probe": %s`,
		"Score":          `SchedulerError: running Score plugins: plugin "Probe" failed with: %s`,
		"NormalizeScore": `SchedulerError: running Normalize on Score plugins: plugin "Probe" failed with: %s`,
		"Reserve":        `SchedulerError: running Reserve plugin "Probe": %s`,
		"Permit":         `SchedulerError: running Permit plugin "Probe": %s`,
		"PreBind":        `SchedulerError: running PreBind plugin "Probe": %s`,
	} {
		for reason, do := range map[string]func(*corev1.Pod, string) *framework.Status{"broken": fails, "panic: boom": panics} {
			t.Run(method+" "+reason, func(t *testing.T) {
				kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
					p := &probe{on: map[string]func(*corev1.Pod, string) *framework.Status{method: func(p *corev1.Pod, node string) *framework.Status {
						if p.Name != "bad" {
							return nil
						}
						return do(p, node)
					}, "PostBind": panics, "Unreserve": panics}}
					runWith(t, env, p)
					createNode(env, node("a", "1"))
					createNode(env, node("b", "1"))
					bad, good := pod("bad", "700m"), pod("good", "700m")
					env.Create(bad)
					env.Settle()
					want := strings.Replace(want, "%s", reason, 1)
					if got := state(env, bad); got != want {
						t.Errorf("condition %q, want %q", got, want)
					}
					env.Create(good)
					env.Settle()
					if got := state(env, good); got != "a" && got != "b" {
						t.Errorf("the pod has %q, want a node", got)
					}
				})
			})
		}
	}
}

// TestPluginNonsense checks scores out of range, limits to nodes that do not exist, and codes that
// mean nothing at an extension point.
func TestPluginNonsense(t *testing.T) {
	wait := func(*corev1.Pod, string) *framework.Status { return framework.NewStatus(framework.Wait) }
	for want, p := range map[string]*probe{
		`SchedulerError: applying score defaultWeights on Score plugins: plugin "Probe" returns an invalid score 101, it should in the range of [0, 100] after normalizing`:    {score: map[string]int64{"a": 101}},
		"Unschedulable: 0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [Probe]. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.": {only: sets.New("c")},
		"Unschedulable: 0/2 nodes are available: node(s) didn't satisfy plugin Probe. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.":        {only: sets.New[string]()},
		`SchedulerError: running "Probe" filter plugin: Wait`: {on: map[string]func(*corev1.Pod, string) *framework.Status{"Filter": wait}},
	} {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			runWith(t, env, p)
			createNode(env, node("a", "1"))
			createNode(env, node("b", "1"))
			bad := pod("bad", "100m")
			env.Create(bad)
			env.Settle()
			if got := state(env, bad); got != want {
				t.Errorf("condition\n%q, want\n%q", got, want)
			}
		})
	}
}

// TestPermit checks pods that wait at Permit: one is allowed, one rejected, one too late, one
// deleted, and one preempted.
func TestPermit(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		p := &probe{limit: time.Hour, events: []framework.ClusterEventWithHint{{Resource: &corev1.ConfigMap{}, Actions: framework.All}}}
		p.on = map[string]func(*corev1.Pod, string) *framework.Status{"Permit": func(p *corev1.Pod, _ string) *framework.Status {
			if p.Spec.PriorityClassName != "" {
				return nil
			}
			return framework.NewStatus(framework.Wait)
		}}
		runWith(t, env, p)
		env.Create(priorityClass("high", 1000))
		createNode(env, node("a", "1"))
		waiting := func() (names []string) {
			p.handle.IterateOverWaitingPods(func(w framework.WaitingPod) { names = append(names, w.GetPod().Name+fmt.Sprint(w.GetPendingPlugins())) })
			slices.Sort(names)
			return names
		}
		allowed, rejected, late, deleted := pod("allowed", "200m"), pod("rejected", "200m"), pod("late", "200m"), pod("deleted", "200m")
		for _, p := range []*corev1.Pod{allowed, rejected, late, deleted} {
			env.Create(p)
		}
		env.Settle()
		if got, want := waiting(), []string{"allowed[Probe]", "deleted[Probe]", "late[Probe]", "rejected[Probe]"}; !slices.Equal(got, want) {
			t.Fatalf("waiting %q, want %q", got, want)
		}
		p.took()
		p.handle.GetWaitingPod(allowed.UID).Allow("Other")
		p.handle.GetWaitingPod(allowed.UID).Allow("Probe")
		if !p.handle.GetWaitingPod(rejected.UID).Reject("Probe", "no seat") {
			t.Error("the pod was not waiting")
		}
		if err := env.Client().Delete(env.Context(), deleted, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if got := state(env, allowed); got != "a" {
			t.Errorf("the allowed pod has %q, want a node", got)
		}
		if got, want := state(env, rejected), "Unschedulable: 0/1 nodes are available: 1 no seat."; got != want {
			t.Errorf("the rejected pod has %q, want %q", got, want)
		}
		if calls := p.took(); !slices.Contains(calls, "deleted Unreserve a") || !slices.Contains(calls, "rejected Unreserve a") || slices.Contains(calls, "allowed Unreserve a") {
			t.Errorf("calls %q", calls)
		}
		urgent := pod("urgent", "800m")
		urgent.Spec.PriorityClassName = "high"
		_ = env.Client().Delete(env.Context(), rejected, client.GracePeriodSeconds(0)) // it may wait again
		time.Sleep(20 * time.Minute)
		if p.handle.GetWaitingPod(types.UID("unknown")) != nil {
			t.Error("an unknown pod waits")
		}
		if got, want := state(env, late), "Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 15m0s at plugin Probe."; got != want {
			t.Errorf("the late pod has %q, want %q", got, want)
		}
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "retry"}})
		time.Sleep(time.Minute)
		if got, want := waiting(), []string{"late[Probe]"}; !slices.Equal(got, want) {
			t.Fatalf("waiting %q, want %q", got, want)
		}
		env.Create(urgent)
		time.Sleep(time.Minute)
		if got := state(env, urgent); got != "a" {
			t.Errorf("the urgent pod has %q, want a node", got)
		}
		env.Get(late) // it was not deleted
		all, _ := messages(t, env)
		if !slices.ContainsFunc(all, func(m string) bool { return strings.HasPrefix(m, "late Preempted: Preempted by pod ") }) {
			t.Errorf("no event about preemption in %q", all)
		}
	})
}

// TestPostFilter checks a plugin that makes room for a pod, and Activate.
func TestPostFilter(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		p := &probe{to: &framework.PostFilterResult{NominatedNodeName: "b"}}
		p.on = map[string]func(*corev1.Pod, string) *framework.Status{
			"PostFilter": func(*corev1.Pod, string) *framework.Status {
				return framework.NewStatus(framework.Success, "room is on its way")
			},
			"Filter": func(*corev1.Pod, string) *framework.Status {
				return framework.NewStatus(framework.Unschedulable, "full")
			},
		}
		runWith(t, env, p)
		createNode(env, node("a", "1"))
		createNode(env, node("b", "1"))
		waits := pod("waits", "100m")
		env.Create(waits)
		env.Settle()
		if got, want := state(env, waits), "Unschedulable: 0/2 nodes are available: 2 full. room is on its way"; got != want || waits.Status.NominatedNodeName != "b" {
			t.Errorf("the pod has %q, nominated for %q; want %q, b", got, waits.Status.NominatedNodeName, want)
		}
		p.mu.Lock()
		clear(p.on)
		p.mu.Unlock()
		p.handle.Activate(waits, pod("unknown", "1"))
		env.Settle()
		if got := state(env, waits); got != "b" {
			t.Errorf("the pod is on %q, want b", got)
		}
	})
}

// A binder is a plugin that binds pods.
type binder struct {
	handle framework.Handle
	args   struct {
		Skip string `json:"skip"`
	}
}

func (b *binder) Name() string { return "Binder" }

func (b *binder) Bind(ctx context.Context, _ *framework.CycleState, p *corev1.Pod, node string) *framework.Status {
	if p.Name == b.args.Skip {
		return framework.NewStatus(framework.Skip)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"bound-by": "Binder"}}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	return framework.AsStatus(b.handle.Client().SubResource("binding").Create(ctx, p.DeepCopy(), binding))
}

// TestPluginConfigured checks a plugin of a program in a configuration: its arguments, its place
// among those that bind, and that another profile does not have it.
func TestPluginConfigured(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		o := scheduler.Options{
			Plugins: map[string]framework.Factory{"Binder": func(args runtime.RawExtension, h framework.Handle) (framework.Plugin, error) {
				made++
				b := &binder{handle: h}
				return b, framework.DecodeArgs(args, &b.args)
			}},
			Configuration: &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{
				{SchedulerName: new("usual")},
				{
					SchedulerName: new("own"),
					Plugins: &configv1.Plugins{Bind: configv1.PluginSet{
						Disabled: []configv1.Plugin{{Name: "*"}}, Enabled: []configv1.Plugin{{Name: "Binder"}, {Name: "DefaultBinder"}},
					}},
					PluginConfig: []configv1.PluginConfig{{Name: "Binder", Args: runtime.RawExtension{Raw: []byte(`{"skip": "skipped"}`)}}},
				},
			}},
		}
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := o.Add(m); err != nil {
			t.Fatal(err)
		}
		if made != 1 {
			t.Errorf("%d plugins were made, want 1", made)
		}
		env.Go(m.Start)
		createNode(env, node("a", "1"))
		for name, want := range map[string]string{"usual": "", "own": "Binder", "skipped": ""} {
			p := pod(name, "100m")
			p.Spec.SchedulerName = name
			if name == "skipped" {
				p.Spec.SchedulerName = "own"
			}
			env.Create(p)
			env.Settle()
			if got := state(env, p); got != "a" || p.Annotations["bound-by"] != want {
				t.Errorf("pod %s has %q, and was bound by %q; want a, %q", name, got, p.Annotations["bound-by"], want)
			}
		}
	})
}

// TestPluginFaults checks that a plugin gets a Reserve for each binding, and an Unreserve or
// PostBind for each Reserve, although requests fail and responses are lost.
func TestPluginFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		p := &probe{}
		runWith(t, env, p)
		for i := range 3 {
			createNode(env, node(fmt.Sprint("n", i), "1"))
		}
		for i := range 30 {
			env.Create(pod(fmt.Sprint("p", i), "100m"))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(30 * time.Minute)
		var pods corev1.PodList
		list(t, env, &pods)
		counts := map[string]int{}
		for _, call := range p.took() {
			pod, rest, _ := strings.Cut(call, " ")
			method, _, _ := strings.Cut(rest, " ")
			counts[pod+" "+method]++
		}
		failed := 0
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" {
				t.Errorf("pod %s has no node", p.Name)
			}
			reserved, unreserved, bound := counts[p.Name+" Reserve"], counts[p.Name+" Unreserve"], counts[p.Name+" PostBind"]
			if bound != 1 || reserved != unreserved+bound {
				t.Errorf("pod %s: %d times reserved, %d unreserved, %d bound", p.Name, reserved, unreserved, bound)
			}
			failed += unreserved
		}
		if failed == 0 {
			t.Error("no binding has failed")
		}
	}, kapoktest.WithFaults(3, kapoktest.Faults{Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.05, Lost: 0.1, DelayWatch: 0.2, CutWatch: 0.01, Begin: kapoktest.BeginSynced}))
}
