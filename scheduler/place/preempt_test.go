package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func ranked(priority int32, cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Priority = &priority
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// TestNominees checks that pods yield to those of the same or a higher priority that are nominated
// for a node, and that a nominated pod prefers its node.
func TestNominees(t *testing.T) {
	c, profile := NewCluster(1), DefaultProfile()
	c.SetNode(newNode("a"))
	high := newTestPod("high", ranked(10, "3"))
	c.Nominate(high, "a")
	for priority, want := range map[int32]string{9: "", 10: "", 11: "a"} {
		d := c.Place(newTestPod("other", ranked(priority, "2")), profile)
		if d.Node != want {
			t.Errorf("a pod with priority %d gets %q, want %q: %s", priority, d.Node, want, d.Message())
		}
	}
	c.SetNode(newNode("b"))
	for i := range 20 {
		c.SetPod(newTestPod(fmt.Sprint("p", i), ranked(0, "50m"), on("a")))
	}
	if d := c.Place(high, profile); d.Node != "a" {
		t.Errorf("the nominated pod gets %q, want a", d.Node)
	}
	c.Assume(high, "b")
	if got := c.Nominated(high.UID); got != "" {
		t.Errorf("a pod on a node is nominated for %q", got)
	}
}

// TestIneligible checks which pods do not preempt others.
func TestIneligible(t *testing.T) {
	c, profile := NewCluster(1), DefaultProfile()
	c.SetNode(newNode("a"))
	c.SetPod(newTestPod("low", ranked(0, "4"), on("a")))
	never := newTestPod("never", ranked(10, "4"), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) })
	high, equal := newTestPod("high", ranked(10, "4")), newTestPod("equal", ranked(0, "4"))
	preempt := func(p *corev1.Pod, node, message string) {
		t.Helper()
		if got := c.Place(p, profile).Preempt(profile.Preempter); got.Node != node || got.Message != "preemption: "+message {
			t.Errorf("%s: %q, %q; want %q, %q", p.Name, got.Node, got.Message, node, message)
		}
	}
	preempt(never, "", "not eligible due to preemptionPolicy=Never.")
	preempt(equal, "", "0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	preempt(high, "a", "found a potential placement for pod on node a, preempting 1 victims")
	c.Nominate(high, "a")
	c.Evict("low")
	preempt(high, "", "not eligible due to a terminating pod on the nominated node.")
	huge := newTestPod("huge", ranked(10, "5"))
	preempt(huge, "", "0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
}

// TestPreemptsUserOfClaim checks that the user of a claim of one pod (ReadWriteOncePod) is
// preempted by a pod with a higher priority that uses the claim, and only by such a pod.
func TestPreemptsUserOfClaim(t *testing.T) {
	c, profile := NewCluster(1), DefaultProfile()
	c.SetNode(newNode("a"))
	c.SetNode(newNode("b"))
	c.SetStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "manual"}})
	for i, name := range []string{"one", "two"} {
		volume := fmt.Sprint("v", i)
		c.SetVolume(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)},
		}})
		c.SetClaim(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: new("manual"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
	}
	using := func(claims ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, name := range claims {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
			}
		}
	}
	c.SetPod(newTestPod("user", ranked(5, "1"), on("a"), using("one")))
	c.SetPod(newTestPod("other", ranked(0, "1"), on("b")))
	for _, test := range []struct {
		priority     int32
		claims       []string
		node, victim string
	}{
		{0, []string{"one"}, "", ""},
		{5, []string{"one"}, "", ""},
		{6, []string{"one"}, "a", "user"},
		{6, []string{"one", "two"}, "a", "user"},
	} {
		d := c.Place(newTestPod("new", ranked(test.priority, "1"), using(test.claims...)), profile)
		if d.Node != "" {
			t.Errorf("a pod with priority %d and the claims %v gets node %s", test.priority, test.claims, d.Node)
		}
		got := d.Preempt(profile.Preempter)
		if got.Node != test.node || test.victim != "" && (len(got.Victims) != 1 || got.Victims[0].Name != test.victim) {
			t.Errorf("a pod with priority %d and the claims %v gets %q by victims %v, want %q by %s", test.priority, test.claims, got.Node, got.Victims, test.node, test.victim)
		}
	}
	c.SetPod(newTestPod("second", ranked(5, "1"), on("b"), using("two")))
	if got := c.Place(newTestPod("new", ranked(6, "1"), using("one", "two")), profile).Preempt(profile.Preempter); got.Node != "" {
		t.Errorf("the users of two claims, on two nodes, are preempted on %s", got.Node)
	}
}

// TestPreempt checks with random clusters: victims have lower priorities, the pod fits without them
// and not with any of them, and a budget is violated only if the pod would fit no node without the
// pods that no budget protects.
func TestPreempt(t *testing.T) {
	seed, profile := seeds.Of(t), DefaultProfile()
	found, violations := 0, 0
	for i := range 500 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		c := NewCluster(seed)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "protected"}}
		c.SetBudget(b)
		var pods []*corev1.Pod
		if i%2 == 1 {
			c.LoadPods(func(key types.NamespacedName) *corev1.Pod {
				return pods[slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Name == key.Name })]
			})
		}
		nodes := 1 + r.IntN(4)
		for n := range nodes {
			name := fmt.Sprint("n", n)
			c.SetNode(newNode(name))
			for k := range r.IntN(8) {
				p := newTestPod(fmt.Sprint("p", n, ".", k), ranked(r.Int32N(3)*10, []string{"500m", "700m", "1"}[r.IntN(3)]), on(name))
				if r.IntN(2) == 0 {
					p.Labels["app"] = "protected"
				}
				pods = append(pods, p)
				c.SetPod(p)
			}
		}
		p := newTestPod("new", ranked(r.Int32N(3)*10, "3"))
		d := c.Place(p, profile)
		if d.Node != "" {
			continue
		}
		got := d.Preempt(profile.Preempter)
		if got.Node == "" {
			continue
		}
		found++
		fits := func() bool { return c.Place(p, profile).Node != "" }
		for _, v := range got.Victims {
			if v.Spec.NodeName != got.Node || Priority(v) >= Priority(p) {
				t.Fatalf("cluster %d: %s on %s with priority %d is a victim of one with priority %d on %s", i, v.Name, v.Spec.NodeName, Priority(v), Priority(p), got.Node)
			}
			c.RemovePod(v.UID)
		}
		if !fits() {
			t.Fatalf("cluster %d: the pod does not fit without %d victims", i, len(got.Victims))
		}
		for _, v := range got.Victims {
			c.SetPod(v)
			if fits() {
				t.Fatalf("cluster %d: the pod fits with the victim %s", i, v.Name)
			}
			c.RemovePod(v.UID)
		}
		if got.Violations == 0 {
			continue
		}
		violations++
		for _, other := range pods {
			c.RemovePod(other.UID)
			if other.Labels["app"] == "protected" || Priority(other) >= Priority(p) {
				c.SetPod(other)
			}
		}
		if fits() {
			t.Fatalf("cluster %d: the budget is violated, although pods without one suffice", i)
		}
	}
	if found < 50 || violations < 10 {
		t.Errorf("%d preemptions, %d with violations: the clusters are not various", found, violations)
	}
}
