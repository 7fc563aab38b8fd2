package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// messages returns the events as "POD REASON: MESSAGE".
func messages(t *testing.T, env *kapoktest.Env) (all []string, events corev1.EventList) {
	t.Helper()
	list(t, env, &events)
	for _, e := range events.Items {
		all = append(all, fmt.Sprint(e.InvolvedObject.Name, " ", e.Reason, ": ", e.Message))
	}
	return all, events
}

// list lists objects, although requests may fail.
func list(t *testing.T, env *kapoktest.Env, to client.ObjectList) {
	t.Helper()
	var err error
	for range 100 {
		if err = env.Client().List(env.Context(), to); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal(err)
}

// TestPreempts checks a full cluster of simulated nodes: a pod with a high priority comes, one with
// a low priority is deleted, and the first one runs when the other has gone.
func TestPreempts(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(priorityClass("high", 1000))
		time.Sleep(time.Minute)
		var nodes corev1.NodeList
		list(t, env, &nodes)
		half := fmt.Sprint(nodes.Items[0].Status.Allocatable.Cpu().Value()/2 + 1)
		for i := range 3 {
			env.Create(pod(fmt.Sprint("low-", i), half))
		}
		time.Sleep(time.Minute)
		high := pod("high", half)
		high.Spec.PriorityClassName = "high"
		env.Create(high)
		time.Sleep(5 * time.Minute)
		env.Get(high)
		if high.Spec.NodeName == "" || high.Status.Phase != corev1.PodRunning || high.Status.NominatedNodeName != "" {
			t.Errorf("the pod is %s on %q, nominated for %q", high.Status.Phase, high.Spec.NodeName, high.Status.NominatedNodeName)
		}
		var pods corev1.PodList
		list(t, env, &pods)
		if len(pods.Items) != 3 {
			t.Errorf("there are %d pods, want 3", len(pods.Items))
		}
	}, kapoktest.Controllers(kapok.Together{controllers.Options{}, scheduler.Options{}, simulated.Options{Nodes: 3}}))
}

// TestNominates checks what the scheduler writes while a victim terminates, and that another pod
// does not take its place.
func TestNominates(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		createNode(env, node("a", "1"))
		env.Create(priorityClass("high", 1000), priorityClass("middle", 10))
		low, middle, high := pod("low", "800m"), pod("middle", "900m"), pod("high", "800m")
		env.Create(low)
		env.Settle()
		high.Spec.PriorityClassName, middle.Spec.PriorityClassName = "high", "middle"
		env.Create(middle)
		env.Settle()
		env.Get(middle)
		if got := middle.Status.NominatedNodeName; got != "a" {
			t.Errorf("the first pod is nominated for %q, want a", got)
		}
		env.Create(high) // takes the nomination
		env.Settle()
		env.Get(low)
		preempted := slices.ContainsFunc(low.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler &&
				c.Message == "default-scheduler: preempting to accommodate a higher priority pod"
		})
		if !preempted || low.DeletionTimestamp == nil {
			t.Errorf("the victim is deleted at %v, with the conditions %v", low.DeletionTimestamp, low.Status.Conditions)
		}
		env.Get(high)
		env.Get(middle)
		if high.Status.NominatedNodeName != "a" || middle.Status.NominatedNodeName != "" {
			t.Errorf("the pods are nominated for %q and %q, want a and none", high.Status.NominatedNodeName, middle.Status.NominatedNodeName)
		}
		if err := env.Client().Delete(env.Context(), low, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		env.Get(high)
		env.Get(middle)
		if high.Spec.NodeName != "a" || high.Status.NominatedNodeName != "" || middle.Spec.NodeName != "" {
			t.Errorf("the pods are on %q, nominated for %q, and on %q", high.Spec.NodeName, high.Status.NominatedNodeName, middle.Spec.NodeName)
		}
		all, _ := messages(t, env)
		said := strings.Join(all, "\n")
		for _, want := range []string{
			fmt.Sprintf("low Preempted: Preempted by pod %s on node a", middle.UID),
			"middle FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("no event %q in\n%s", want, said)
			}
		}
	})
}

// TestPreemptionInvariants checks random pods on a few nodes, although requests fail and watches
// lag: no pod is preempted in favour of one whose priority is not higher, no node is overcommitted,
// and the pods that wait have the lowest priorities.
func TestPreemptionInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		for i := range 3 {
			createNode(env, node(fmt.Sprint("n", i), "1"))
		}
		for i := range 4 {
			env.Create(priorityClass(fmt.Sprint("class-", i), int32(i)*10))
		}
		priorities := map[string]int32{}
		for i := range 60 {
			p := pod(fmt.Sprint("p", i), "250m")
			class := r.Int32N(4)
			p.Spec.PriorityClassName = fmt.Sprint("class-", class)
			p.Spec.TerminationGracePeriodSeconds = new(int64(0))
			env.Create(p)
			priorities[p.Name] = class * 10
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			checkNodes(t, env)
		}
		time.Sleep(20 * time.Minute)
		checkNodes(t, env)
		_, events := messages(t, env)
		preemptions := 0
		for _, e := range events.Items {
			if e.Reason != "Preempted" {
				continue
			}
			preemptions++
			if victim, by := priorities[e.InvolvedObject.Name], priorities[e.Related.Name]; victim >= by {
				t.Errorf("%s with priority %d was preempted by %s with priority %d", e.InvolvedObject.Name, victim, e.Related.Name, by)
			}
		}
		if preemptions < 5 {
			t.Errorf("%d preemptions: the pods are not various", preemptions)
		}
		var pods corev1.PodList
		list(t, env, &pods)
		lowest, highest, placed := int32(1000), int32(-1), 0
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" {
				highest = max(highest, priorities[p.Name])
			} else {
				lowest = min(lowest, priorities[p.Name])
				placed++
			}
		}
		if highest > lowest || placed != 12 {
			t.Errorf("%d pods have nodes, want 12; the lowest priority of them is %d, the highest of others %d", placed, lowest, highest)
		}
	}, kapoktest.WithFaults(3, kapoktest.Faults{Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.05, Lost: 0.1, DelayWatch: 0.2, CutWatch: 0.01, Begin: kapoktest.BeginSynced}))
}

// checkNodes checks that the pods on each node fit.
func checkNodes(t *testing.T, env *kapoktest.Env) {
	t.Helper()
	var pods corev1.PodList
	list(t, env, &pods)
	used := map[string]int64{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" {
			used[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	for name, sum := range used {
		if sum > 1000 {
			t.Fatalf("pods on %s request %dm CPU of 1000m", name, sum)
		}
	}
}
