package nodelifecycle_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/nodelifecycle"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "node-lifecycle-controller"

func newNode(name, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	return n
}

func ready(status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
}

// post writes the condition Ready of a node, and nothing else.
func post(env *kapoktest.Env, node string, status corev1.ConditionStatus) {
	n := newNode(node, "")
	env.UpdateStatus(n, func() { n.Status.Conditions = []corev1.NodeCondition{ready(status)} })
}

// renew renews the Lease of a node.
func renew(env *kapoktest.Env, node string) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	if !env.Exists(l) {
		l.Spec.RenewTime = new(metav1.NowMicro())
		env.Create(l)
		return
	}
	env.Update(l, func() { l.Spec.RenewTime = new(metav1.NowMicro()) })
}

func has(n *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func status(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// TestGracePeriods checks that a node is lost exactly when its grace period is over, and not
// before.
func TestGracePeriods(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options nodelifecycle.Options
		posts   bool // its status, before the last heartbeat
		leases  bool
		want    time.Duration
	}{
		{name: "default", posts: true, leases: true, want: 50 * time.Second},
		{name: "no lease", posts: true, want: 50 * time.Second},
		{name: "no status", want: time.Minute},
		{name: "lease only", leases: true, want: time.Minute},
		{name: "option", options: nodelifecycle.Options{NodeMonitorGracePeriod: 7 * time.Second}, posts: true, want: 7 * time.Second},
		{name: "startup option", options: nodelifecycle.Options{NodeStartupGracePeriod: 9 * time.Second}, want: 9 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				env.Create(newNode("n", ""), newNode("other", ""))
				last := time.Now()
				for i := 0; i < 3 && (tc.posts || tc.leases); i++ {
					time.Sleep(6 * time.Second)
					last = time.Now()
					if tc.posts {
						post(env, "n", corev1.ConditionTrue)
					}
					if tc.leases {
						renew(env, "n")
					}
				}
				n := newNode("n", "")
				time.Sleep(time.Until(last.Add(tc.want - time.Second)))
				if env.Get(n); status(n) == corev1.ConditionUnknown {
					t.Fatalf("the node is lost before %v are over", tc.want)
				}
				time.Sleep(1010 * time.Millisecond)
				if env.Get(n); status(n) != corev1.ConditionUnknown {
					t.Fatalf("the node is %q %v after its last heartbeat", status(n), time.Since(last))
				}
			}, kapoktest.Controllers(controllers.Options{Names: []string{name}, NodeLifecycle: tc.options}))
		})
	}
}

// TestRestart checks that a node has a whole grace period after the controller has started again,
// and that its taint comes again.
func TestRestart(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		stop := start(env)
		env.Create(newNode("lost", ""), newNode("late", ""), newNode("well", ""))
		for _, n := range []string{"lost", "late", "well"} {
			post(env, n, corev1.ConditionTrue)
		}
		for i := range 8 {
			time.Sleep(10 * time.Second)
			renew(env, "well")
			if i < 4 {
				renew(env, "late")
			}
		}
		lost, late := newNode("lost", ""), newNode("late", "")
		if env.Get(lost); !has(lost, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) {
			t.Fatalf("the taints of the lost node are %v", lost.Spec.Taints)
		}
		stop()
		time.Sleep(time.Minute)
		stop = start(env)
		defer stop()
		began := time.Now()
		for time.Since(began) < 45*time.Second {
			time.Sleep(5 * time.Second)
			renew(env, "well")
		}
		if env.Get(late); status(late) != corev1.ConditionTrue {
			t.Errorf("the node whose Lease is old is %s %v after the start", status(late), time.Since(began))
		}
		if env.Get(lost); !has(lost, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) {
			t.Errorf("the taints of the lost node are %v", lost.Spec.Taints)
		}
		for range 2 {
			time.Sleep(5 * time.Second)
			renew(env, "well")
		}
		if env.Get(late); status(late) != corev1.ConditionUnknown {
			t.Errorf("the node without heartbeats is %s %v after the start", status(late), time.Since(began))
		}
	})
}

// TestAtRest counts the writes of an hour in which nodes send heartbeats, and others do not.
func TestAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, name, "taint-eviction-controller", "ttl-controller")
		for i := range 10 {
			n := newNode(fmt.Sprint("n", i), fmt.Sprint("z", i%3))
			n.Labels[corev1.LabelOSStable] = "linux"
			env.Create(n, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: "default"},
				Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			})
			if i > 0 {
				post(env, n.Name, corev1.ConditionTrue)
			}
		}
		beat := func(times int) {
			for range times {
				time.Sleep(10 * time.Second)
				for i := range 7 {
					renew(env, fmt.Sprint("n", i))
				}
			}
		}
		beat(80)
		from := len(env.Writes())
		beat(360)
		for _, w := range env.Writes()[from:] {
			if w.UserAgent == controllers.UserAgent {
				t.Errorf("a write at rest: %s %s", w.Method, w.Path)
			}
		}
	})
}

// TestRefused counts the requests of an hour in which no node can be written: the pauses become
// longer.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, name)
		for i := range 5 {
			n := newNode(fmt.Sprint("n", i), "")
			n.Spec.Unschedulable = true
			env.Create(n)
		}
		time.Sleep(10 * time.Minute)
		if w := controllertest.Writes(env, time.Hour); w < 5 || w > 60 {
			t.Errorf("%d requests in an hour for five nodes, want a few each", w)
		}
	})
}

// TestStaleLease checks that a node whose Lease the cache does not know yet is not lost.
func TestStaleLease(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, name)
		env.Create(newNode("n", ""))
		for range 100 {
			time.Sleep(10 * time.Second)
			err := error(apierrors.NewConflict(coordinationv1.Resource("leases"), "n", nil))
			for err != nil { // injected faults
				l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}}
				if getErr := env.Client().Get(env.Context(), keyOf(l), l); apierrors.IsNotFound(getErr) {
					l.Spec.RenewTime = new(metav1.NowMicro())
					err = env.Client().Create(env.Context(), l)
					continue
				}
				l.Spec.RenewTime = new(metav1.NowMicro())
				err = env.Client().Update(env.Context(), l)
			}
			n := newNode("n", "")
			if err := env.Client().Get(env.Context(), keyOf(n), n); err == nil && status(n) == corev1.ConditionUnknown {
				t.Fatal("the node is lost, though its Lease is renewed")
			}
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{Conflict: 0.05, ServerError: 0.05, DelayWatch: 0.3, CutWatch: 0.1}))
}

// TestAllLost counts the writes of an hour in which all nodes are lost, and looks for taints that
// come and go.
func TestAllLost(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, name)
		for i := range 5 {
			n := newNode(fmt.Sprint("n", i), fmt.Sprint("z", i%2))
			env.Create(n)
			post(env, n.Name, corev1.ConditionTrue)
		}
		w, err := env.Client().Watch(t.Context(), &corev1.NodeList{})
		if err != nil {
			t.Fatal(err)
		}
		var watches sync.WaitGroup
		tainted := 0
		watches.Go(func() {
			for e := range w.ResultChan() {
				if n, ok := e.Object.(*corev1.Node); ok && has(n, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) {
					tainted++
				}
			}
		})
		time.Sleep(2 * time.Minute)
		if writes := controllertest.Writes(env, time.Hour); writes > 0 {
			t.Errorf("%d writes, want none", writes)
		}
		w.Stop()
		if watches.Wait(); tainted > 0 {
			t.Errorf("%d times a node has a taint NoExecute", tainted)
		}
	})
}
