package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// devicesOf is a list of devices of a node.
func devicesOf(node string, count int, edit func(*resourcev1.Device)) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range count {
		d := resourcev1.Device{Name: fmt.Sprint("gpu-", i)}
		if edit != nil {
			edit(&d)
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

var gpus = &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
	{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}},
}}}

func deviceClaim(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}},
	}}}
}

// claims is a pod that uses a claim.
func claims(name, claim string) *corev1.Pod {
	p := pod(name, "100m")
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return p
}

// unscheduled returns why a pod has no node.
func unscheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// TestDevices checks pods with claims of devices: those that share one, one that waits for a
// device, and one whose claim has a device that no node reaches.
func TestDevices(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		for _, name := range []string{"a", "b"} {
			createNode(env, node(name, "4"))
			env.Create(devicesOf(name, 1, nil))
		}
		env.Create(gpus.DeepCopy())
		shared, own, late, far := deviceClaim("shared"), deviceClaim("own"), deviceClaim("late"), deviceClaim("far")
		env.Create(shared, own, late)
		first, second, third, fourth, fifth := claims("first", "shared"), claims("second", "shared"), claims("third", "own"), claims("fourth", "late"), claims("fifth", "far")
		env.Create(first, second, third)
		time.Sleep(time.Minute)
		env.Get(shared)
		env.Get(own)
		for _, p := range []*corev1.Pod{first, second, third} {
			env.Get(p)
		}
		if first.Spec.NodeName == "" || first.Spec.NodeName != second.Spec.NodeName || third.Spec.NodeName == "" || third.Spec.NodeName == first.Spec.NodeName {
			t.Errorf("pods are on %q, %q and %q: want two on one node, and one on the other", first.Spec.NodeName, second.Spec.NodeName, third.Spec.NodeName)
		}
		var users []string
		for _, r := range shared.Status.ReservedFor {
			users = append(users, r.Resource+" "+r.Name)
		}
		slices.Sort(users)
		if a := shared.Status.Allocation; a == nil || a.Devices.Results[0].Pool != first.Spec.NodeName || a.AllocationTimestamp == nil ||
			!slices.Equal(users, []string{"pods first", "pods second"}) || !slices.Equal(shared.Finalizers, []string{resourcev1.Finalizer}) {
			t.Errorf("the claim has %+v and the finalizers %v", shared.Status, shared.Finalizers)
		}

		env.Create(fourth)
		time.Sleep(time.Minute)
		env.Get(fourth)
		const full = "Unschedulable: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		if got := unscheduled(fourth); got != full {
			t.Errorf("condition %q, want %q", got, full)
		}
		if err := env.Client().Delete(env.Context(), third, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		env.UpdateStatus(own, func() { own.Status = resourcev1.ResourceClaimStatus{} }) // as the controller of claims does
		time.Sleep(time.Minute)
		if env.Get(fourth); fourth.Spec.NodeName != third.Spec.NodeName {
			t.Errorf("the pod is on %q, want %q", fourth.Spec.NodeName, third.Spec.NodeName)
		}

		// The claim of the fifth pod has a device of a node that does not exist.
		env.Create(far)
		env.Update(far, func() { far.Finalizers = []string{resourcev1.Finalizer} })
		env.UpdateStatus(far, func() {
			far.Status.Allocation = &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "c", Device: "gpu-0"}}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"c"}},
				}}}},
			}
		})
		time.Sleep(time.Second)
		env.Create(fifth)
		time.Sleep(time.Minute)
		env.Get(far)
		if far.Status.Allocation != nil {
			t.Errorf("the claim has %+v", far.Status.Allocation)
		}
		var events corev1.EventList
		if err := env.Client().List(env.Context(), &events); err != nil {
			t.Fatal(err)
		}
		const gone = "0/2 nodes are available: 2 resourceclaim not available on the node. deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Name == "fifth" && e.Message == gone }) {
			t.Errorf("no event %q", gone)
		}
	})
}

// TestDevicesOfTemplates checks that a pod whose claim does not exist yet is not tried, and has its
// node as soon as the claim exists.
func TestDevicesOfTemplates(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		createNode(env, node("a", "4"))
		env.Create(devicesOf("a", 1, nil), gpus.DeepCopy())
		p := pod("p", "100m")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("template")}}
		env.Create(p)
		time.Sleep(time.Hour)
		if env.Get(p); len(p.Status.Conditions) > 0 {
			t.Errorf("conditions %v, want none", p.Status.Conditions)
		}
		claim := deviceClaim("p-gpu-1")
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
		env.Create(claim)
		env.UpdateStatus(p, func() {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
		})
		env.Settle() // without any backoff
		if env.Get(p); p.Spec.NodeName != "a" {
			t.Errorf("the pod is on %q, want a", p.Spec.NodeName)
		}
	})
}

// TestDevicesNotReady checks that a pod waits until a driver has made its device ready, and that
// one whose device fails gets another one.
func TestDevicesNotReady(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		createNode(env, node("a", "4"))
		env.Create(gpus.DeepCopy(), devicesOf("a", 1, func(d *resourcev1.Device) {
			d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = new(true), []string{"attached"}, []string{"broken"}
		}))
		env.Settle()
		claim, p := deviceClaim("claim"), claims("p", "claim")
		env.Create(claim, p)
		condition := func(kind string) {
			env.Get(claim)
			if claim.Status.Allocation == nil {
				t.Fatal("the claim has no device")
			}
			env.UpdateStatus(claim, func() {
				claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0", Conditions: []metav1.Condition{
					{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", Message: "said", LastTransitionTime: metav1.Now()},
				}}}
			})
		}
		time.Sleep(5 * time.Minute)
		if env.Get(p); p.Spec.NodeName != "" {
			t.Errorf("the pod is on %q before its device is ready", p.Spec.NodeName)
		}
		condition("broken")
		time.Sleep(2 * time.Minute) // the claim loses the device, and gets it again
		var events corev1.EventList
		if err := env.Client().List(env.Context(), &events); err != nil {
			t.Fatal(err)
		}
		const waits = "waiting for binding conditions for device on node a"
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Message == waits }) {
			t.Errorf("no event %q", waits)
		}
		if env.Get(p); p.Spec.NodeName != "" {
			t.Errorf("the pod is on %q although its device has failed", p.Spec.NodeName)
		}
		condition("attached")
		time.Sleep(time.Minute)
		if env.Get(p); p.Spec.NodeName != "a" {
			t.Errorf("the pod is on %q, want a", p.Spec.NodeName)
		}
	})
}

// TestDevicesFaults checks that no device is given twice and none stays unused, although requests
// fail, watches lag and answers are lost.
func TestDevicesFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		env.Create(gpus.DeepCopy())
		for i := range 3 {
			name := fmt.Sprint("n", i)
			createNode(env, node(name, "8"))
			env.Create(devicesOf(name, 4, nil))
		}
		for i := range 15 {
			name := fmt.Sprint("p", i)
			env.Create(deviceClaim(name), claims(name, name))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(30 * time.Minute)
		var pods corev1.PodList
		var all resourcev1.ResourceClaimList
		if err := env.Client().List(env.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		if err := env.Client().List(env.Context(), &all); err != nil {
			t.Fatal(err)
		}
		users := map[string]string{}
		for _, c := range all.Items {
			if c.Status.Allocation == nil {
				continue
			}
			r := c.Status.Allocation.Devices.Results[0]
			at := r.Pool + "/" + r.Device
			if users[at] != "" {
				t.Errorf("%s and %s have %s", users[at], c.Name, at)
			}
			users[at] = c.Name
		}
		placed := 0
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" {
				continue
			}
			placed++
			if i := slices.IndexFunc(all.Items, func(c resourcev1.ResourceClaim) bool { return c.Name == p.Name }); all.Items[i].Status.Allocation == nil ||
				!strings.HasPrefix(all.Items[i].Status.Allocation.Devices.Results[0].Pool, p.Spec.NodeName) || len(all.Items[i].Status.ReservedFor) != 1 {
				t.Errorf("pod %s on %s: its claim has %+v", p.Name, p.Spec.NodeName, all.Items[i].Status)
			}
		}
		if placed != 12 {
			t.Errorf("%d pods have a node, want 12: one for each device", placed)
		}
	}, kapoktest.WithFaults(3, kapoktest.Faults{Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.05, Lost: 0.1, DelayWatch: 0.2, CutWatch: 0.01, Begin: kapoktest.BeginSynced}))
}
