package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// extended is a pod that requests a number of an extended resource.
func extended(name, resourceName, count string) *corev1.Pod {
	p := pod(name, "100m")
	r := &p.Spec.Containers[0].Resources
	r.Limits = corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(count)}
	r.Requests[corev1.ResourceName(resourceName)] = resource.MustParse(count)
	return p
}

// TestExtendedResources checks pods with resources that a class of devices provides: by the name in
// the class and by the implicit one, on nodes with devices and on one with a device plugin.
func TestExtendedResources(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		first := extended("first", "example.com/gpu", "2")
		createNode(env, node("a", "4"))
		env.Create(first)
		env.Settle()
		if got := state(env, first); !strings.HasPrefix(got, "Unschedulable: 0/1 nodes are available: 1 Insufficient example.com/gpu.") {
			t.Errorf("without a class, the pod has %q", got)
		}
		class := gpus.DeepCopy()
		class.Spec.ExtendedResourceName = new("example.com/gpu")
		env.Create(class)
		env.Settle()
		if got := state(env, first); !strings.HasPrefix(got, "Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims.") {
			t.Errorf("without devices, the pod has %q", got)
		}
		env.Create(devicesOf("a", 3, nil))
		env.Settle()
		if got := state(env, first); got != "a" {
			t.Fatalf("the pod has %q, want a", got)
		}
		status := first.Status.ExtendedResourceClaimStatus
		want := []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "container-0-request-1"}}
		if status == nil || !slices.Equal(status.RequestMappings, want) || !strings.HasPrefix(status.ResourceClaimName, "first-extended-resources-") {
			t.Fatalf("the pod reports %+v, want %+v", status, want)
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: status.ResourceClaimName}}
		env.Get(claim)
		if a := claim.Status.Allocation; a == nil || len(a.Devices.Results) != 2 || len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != first.UID ||
			claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || !metav1.IsControlledBy(claim, first) {
			t.Errorf("the claim is %+v", claim)
		}

		implicit := extended("implicit", "deviceclass.resource.kubernetes.io/gpu", "1")
		env.Create(implicit)
		env.Settle()
		if got := state(env, implicit); got != "a" || implicit.Status.ExtendedResourceClaimStatus == nil {
			t.Errorf("the pod has %q and reports %+v", got, implicit.Status.ExtendedResourceClaimStatus)
		}
		full := extended("full", "example.com/gpu", "1")
		env.Create(full)
		env.Settle()
		if got := state(env, full); !strings.HasPrefix(got, "Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims.") {
			t.Errorf("without a free device, the pod has %q", got)
		}
		plugin := node("b", "4")
		plugin.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
		plugin.Status.Capacity = plugin.Status.Allocatable
		createNode(env, plugin)
		env.Settle()
		if got := state(env, full); got != "b" || full.Status.ExtendedResourceClaimStatus != nil {
			t.Errorf("the pod has %q and reports %+v, want b without a claim", got, full.Status.ExtendedResourceClaimStatus)
		}
	})
}

// TestExtendedClaimLeft checks that a claim which an earlier attempt has left to a pod is deleted.
func TestExtendedClaimLeft(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		class := gpus.DeepCopy()
		class.Spec.ExtendedResourceName = new("example.com/gpu")
		env.Create(class, devicesOf("a", 1, nil))
		p := extended("p", "example.com/gpu", "1")
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
		env.Create(p)
		left := deviceClaim("left")
		left.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		left.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: p.UID, Controller: new(true)}}
		left.Finalizers = []string{resourcev1.Finalizer}
		env.Create(left)
		createNode(env, node("a", "4"))
		env.Update(p, func() { p.Spec.SchedulingGates = nil })
		time.Sleep(time.Minute)
		if got := state(env, p); got != "a" || p.Status.ExtendedResourceClaimStatus == nil || p.Status.ExtendedResourceClaimStatus.ResourceClaimName == "left" {
			t.Errorf("the pod has %q and reports %+v", got, p.Status.ExtendedResourceClaimStatus)
		}
		if env.Exists(left) {
			t.Error("the claim was not deleted")
		}
		all, _ := messages(t, env)
		const want = "p FailedScheduling: 0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim completed, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		if !slices.Contains(all, want) {
			t.Errorf("no event %q in %q", want, all)
		}
	})
}

// TestExtendedFaults checks that no device is given to two pods although requests fail and
// responses are lost.
func TestExtendedFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		class := gpus.DeepCopy()
		class.Spec.ExtendedResourceName = new("example.com/gpu")
		env.Create(class)
		for _, name := range []string{"a", "b"} {
			createNode(env, node(name, "4"))
			env.Create(devicesOf(name, 4, nil))
		}
		for i := range 9 {
			env.Create(extended(fmt.Sprint("p", i), "example.com/gpu", "1"))
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		var pods corev1.PodList
		var claims resourcev1.ResourceClaimList
		list(t, env, &pods)
		list(t, env, &claims)
		bound, taken := 0, map[string]string{}
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" {
				continue
			}
			bound++
			at := slices.IndexFunc(claims.Items, func(c resourcev1.ResourceClaim) bool {
				return p.Status.ExtendedResourceClaimStatus != nil && c.Name == p.Status.ExtendedResourceClaimStatus.ResourceClaimName
			})
			if at < 0 || claims.Items[at].Status.Allocation == nil {
				t.Fatalf("pod %s on %s reports %+v", p.Name, p.Spec.NodeName, p.Status.ExtendedResourceClaimStatus)
			}
			r := claims.Items[at].Status.Allocation.Devices.Results[0]
			if device := r.Pool + "/" + r.Device; r.Pool != p.Spec.NodeName || taken[device] != "" {
				t.Errorf("pod %s on %s has %s, as %q", p.Name, p.Spec.NodeName, device, taken[device])
			} else {
				taken[device] = p.Name
			}
		}
		if bound != 8 {
			t.Errorf("%d pods are bound, want 8", bound)
		}
	}, kapoktest.WithFaults(5, kapoktest.Faults{Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.05, Lost: 0.1, DelayWatch: 0.2, CutWatch: 0.01, Begin: kapoktest.BeginSynced}))
}
