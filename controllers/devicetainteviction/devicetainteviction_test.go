package devicetainteviction_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const controllerName = "device-taint-eviction-controller"

// create creates a device, a claim that has it and tolerates taints of it for some time, and a pod
// that uses the claim, all with one name.
func create(env *kapoktest.Env, name string, tolerates *time.Duration) (*corev1.Pod, *resourcev1.ResourceSlice) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "example.com", NodeName: new("n"), Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "d"}},
	}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "n", new(int64(0))
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim.Name}}
	env.Create(slice, claim, p)
	result := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "example.com", Pool: name, Device: "d"}
	if tolerates != nil {
		result.Tolerations = []resourcev1.DeviceToleration{{
			Key: "k", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute,
			TolerationSeconds: new(int64(tolerates.Seconds())),
		}}
	}
	env.UpdateStatus(claim, func() {
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	})
	return p, slice
}

func taint(env *kapoktest.Env, slice *resourcev1.ResourceSlice) {
	env.Update(slice, func() {
		slice.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoExecute}}
	})
}

// TestEvicts checks when pods go whose device has a taint: at once, after the time for which their
// claim tolerates it, or not, because the taint is removed before.
func TestEvicts(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, controllerName)
		minutes := 5 * time.Minute
		soon, ofSoon := create(env, "soon", nil)
		later, ofLater := create(env, "later", &minutes)
		spared, ofSpared := create(env, "spared", &minutes)
		env.Settle()
		for _, slice := range []*resourcev1.ResourceSlice{ofSoon, ofLater, ofSpared} {
			taint(env, slice)
		}
		exist := func(after time.Duration, want ...bool) {
			t.Helper()
			time.Sleep(after)
			env.Settle()
			for i, p := range []*corev1.Pod{soon, later, spared} {
				if env.Exists(p) != want[i] {
					t.Errorf("pod %s exists: %v, want %v", p.Name, !want[i], want[i])
				}
			}
		}
		exist(time.Second, false, true, true)
		exist(4*time.Minute, false, true, true)
		env.Update(ofSpared, func() { ofSpared.Spec.Devices[0].Taints = nil })
		exist(2*time.Minute, false, false, true)
		exist(time.Hour, false, false, true)
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes in a day at rest, want none", n)
		}
	})
}

// TestReadOnly counts the attempts of a virtual hour in which the server refuses to evict, and
// checks that the pod goes when it may.
func TestReadOnly(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, controllerName)
		p, slice := create(env, "p", nil)
		taint(env, slice)
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, time.Hour); n < 2 || n > 20 {
			t.Errorf("%d attempts in an hour, want a few", n)
		}
		if !env.Exists(p) {
			t.Error("the pod has gone")
		}
		controllertest.Run(t, env, controllerName)
		time.Sleep(time.Second)
		env.Settle()
		if env.Exists(p) {
			t.Error("the pod of a tainted device exists")
		}
	})
}

// TestFaults checks that pods go although requests fail, watches lag and answers are lost.
func TestFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, controllerName)
		var pods []*corev1.Pod
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			p, slice := create(env, name, nil)
			pods = append(pods, p)
			taint(env, slice)
		}
		time.Sleep(time.Hour)
		for _, p := range pods {
			if env.Exists(p) {
				t.Errorf("pod %s exists", p.Name)
			}
		}
	}, kapoktest.WithFaults(7, kapoktest.Faults{Conflict: 0.2, ServerError: 0.2, TooManyRequests: 0.1, Lost: 0.2, DelayWatch: 0.3, CutWatch: 0.1}))
}
