package simulated_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeCondition(n *corev1.Node, of corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == of {
			return &n.Status.Conditions[i]
		}
	}
	return &corev1.NodeCondition{}
}

// TestHeartbeats lets node-lifecycle-controller watch nodes for a day.
func TestHeartbeats(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 3)
		env.Settle()
		for range 24 {
			time.Sleep(10 * time.Minute)
			for _, name := range []string{"node-0", "node-1", "node-2"} {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if env.Get(n); len(n.Spec.Taints) > 0 || nodeCondition(n, corev1.NodeReady).Status != corev1.ConditionTrue {
					t.Fatalf("%s has taints %v and conditions %v", name, n.Spec.Taints, n.Status.Conditions)
				}
				if age := time.Since(nodeCondition(n, corev1.NodeReady).LastHeartbeatTime.Time); age > 5*time.Minute {
					t.Errorf("the last heartbeat in the status of %s is %v ago", name, age)
				}
				l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
				env.Get(l)
				if age := time.Since(l.Spec.RenewTime.Time); age > 10*time.Second || *l.Spec.LeaseDurationSeconds != 40 || *l.Spec.HolderIdentity != name {
					t.Errorf("the Lease of %s was renewed %v ago: %+v", name, age, l.Spec)
				}
				if len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != n.UID {
					t.Errorf("owners %v", l.OwnerReferences)
				}
			}
		}
	}, kapoktest.Controllers(controllers.Options{Names: []string{"node-lifecycle-controller"}}))
}

// TestDown lets a node fail and come back.
func TestDown(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
		env.WaitFor(t.Context(), n, func() bool { return n.UID != "" && len(n.Spec.Taints) == 0 })
		env.Update(n, func() { n.Annotations[simulated.NodeAnnotation] = simulated.Down })
		time.Sleep(2 * time.Minute)
		if env.Get(n); nodeCondition(n, corev1.NodeReady).Status != corev1.ConditionUnknown {
			t.Errorf("%v", n.Status.Conditions)
		}
		env.Update(n, func() { n.Annotations[simulated.NodeAnnotation] = simulated.Simulated })
		env.WaitFor(t.Context(), n, func() bool {
			return nodeCondition(n, corev1.NodeReady).Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0
		})
	}, kapoktest.Controllers(controllers.Options{Names: []string{"node-lifecycle-controller"}}))
}

// TestNodes checks the nodes that are created, and those that were there.
func TestNodes(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		cpus := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		there := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Annotations: map[string]string{simulated.NodeAnnotation: simulated.Simulated}}}
		there.Status.Allocatable = cpus
		env.Create(there)
		env.Go(newManager(t, env.Config(), simulated.Options{
			Nodes: 2, NamePrefix: "worker-", Labels: map[string]string{"zone": "a"},
			Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
		}).Start)
		env.Settle()
		made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
		env.Get(made)
		env.Get(there)
		if made.Labels[corev1.LabelHostname] != "worker-0" || made.Labels[corev1.LabelOSStable] != "linux" || made.Labels["zone"] != "a" || made.Spec.Taints[0].Key != "k" {
			t.Errorf("%+v", made.ObjectMeta)
		}
		if made.Status.Allocatable.Pods().Value() != 110 || made.Status.Capacity.Cpu().Value() != 32 {
			t.Errorf("%+v", made.Status)
		}
		if there.Labels["zone"] != "" || there.Status.Allocatable.Cpu().Value() != 3 || len(there.Status.Addresses) != 2 || there.Status.NodeInfo.KubeletVersion == "" {
			t.Errorf("%+v", there.Status)
		}
		env.Delete(there)
		time.Sleep(time.Minute)
		before := len(env.Writes())
		time.Sleep(time.Minute)
		for _, w := range env.Writes()[before:] {
			if strings.Contains(w.Path, "worker-1") {
				t.Errorf("the node is gone: %v", w)
			}
		}
	})
}

// TestLabels checks that a node that a user has created gets the labels of every node, and keeps
// its own.
func TestLabels(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 0)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "mine", Annotations: map[string]string{simulated.NodeAnnotation: simulated.Simulated}, Labels: map[string]string{corev1.LabelOSStable: "plan9", "gpu": "1"},
		}}
		env.Create(n)
		env.Settle()
		env.Get(n)
		for key, want := range map[string]string{corev1.LabelHostname: "mine", corev1.LabelOSStable: "plan9", "gpu": "1"} {
			if got := n.Labels[key]; got != want {
				t.Errorf("label %s is %q, want %q", key, got, want)
			}
		}
		if n.Labels[corev1.LabelArchStable] == "" {
			t.Error("the node has no architecture")
		}
	})
}

func TestValidate(t *testing.T) {
	for want, o := range map[string]simulated.Options{
		"": {}, "option Nodes is -1: must not be negative": {Nodes: -1},
		`option NamePrefix is "A"`:                                           {NamePrefix: "A"},
		"option Allocatable[cpu] is -1: must not be negative":                {Allocatable: corev1.ResourceList{"cpu": resource.MustParse("-1")}},
		"Labels: Invalid value":                                              {Labels: map[string]string{"-": ""}},
		"option Taints[0]: key and effect must be set":                       {Taints: []corev1.Taint{{}}},
		"option LeaseDuration is 1s: must be at least 4s, and whole seconds": {LeaseDuration: time.Second},
		"option StatusInterval is 1ms: must be at least 1s":                  {StatusInterval: time.Millisecond},
	} {
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
