package simulated_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOneWrite checks that a pod for which there is nothing to wait is written once.
func TestOneWrite(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		env.Settle()
		p := newPod("p", "node-0")
		env.Create(p)
		env.WaitFor(t.Context(), p, func() bool { return p.Status.Phase == corev1.PodRunning })
		env.Settle()
		writes := 0
		for _, w := range env.Writes() {
			if strings.Contains(w.Path, "/pods/") {
				writes++
			}
		}
		if writes != 1 {
			t.Errorf("%d writes", writes)
		}
		var order []string
		for _, c := range p.Status.Conditions {
			order = append(order, string(c.Type))
		}
		if want := []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}; !slices.Equal(order, want) {
			t.Errorf("conditions %v", order)
		}
		if p.Status.PodIP == "" || p.Status.HostIP == "" || p.Status.StartTime == nil || p.Status.ObservedGeneration != p.Generation {
			t.Errorf("%+v", p.Status)
		}
		got := eventsOf(t, env)
		want := []string{
			`node-0 Pulled Container image "i:1" already present on machine and can be accessed by the pod`,
			"node-0 Created Container created", "node-0 Started Container started",
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("events %q", got)
		}
	})
}

func TestCrashLoop(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		env.Settle()
		l := follow(t, env, state)
		env.Create(simulating(newPod("p", "node-0"), "containers: {c: {run: 5s, exit: 1}}"))
		time.Sleep(100 * time.Second)
		l.want(t,
			"0s Pending", "0s Running running", "5s Running running+", "10s Running CrashLoopBackOff+", "20s Running running++",
			"25s Running CrashLoopBackOff++", "45s Running running+++", "50s Running CrashLoopBackOff+++", "1m30s Running running++++",
			"1m35s Running CrashLoopBackOff++++",
		)
	})
}

func TestGracefulDeletion(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		env.Settle()
		l := follow(t, env, state)
		p := simulating(newPod("p", "node-0"), "containers: {c: {stop: 7s}}")
		env.Create(p)
		time.Sleep(10 * time.Second)
		env.Delete(p)
		time.Sleep(time.Minute)
		l.want(t, "0s Pending", "0s Running running", "17s Succeeded Completed", "17s deleted")
		if got := eventsOf(t, env); !slices.Contains(got, "node-0 Killing Stopping container c") {
			t.Errorf("events %q", got)
		}
	})
}

// TestRestart restarts the simulation while a pod crash-loops and another one stops.
func TestRestart(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			m := newManager(t, env.Config(), simulated.Options{Nodes: 1})
			done := make(chan struct{})
			env.Go(func(context.Context) error {
				defer close(done)
				return m.Start(ctx)
			})
			return func() {
				cancel()
				<-done
			}
		}
		stop := run()
		env.Settle()
		l := follow(t, env, state)
		p := simulating(newPod("p", "node-0"), "containers: {c: {run: 5s, exit: 1}}")
		env.Create(p)
		time.Sleep(22 * time.Second)
		stop()
		time.Sleep(5 * time.Second)
		stop = run()
		time.Sleep(15 * time.Second)
		stop()
		stop = run()
		time.Sleep(20 * time.Second)
		l.want(t,
			"0s Pending", "0s Running running", "5s Running running+", "10s Running CrashLoopBackOff+", "20s Running running++",
			"27s Running CrashLoopBackOff++", "45s Running running+++", "50s Running CrashLoopBackOff+++",
		)
		stop()
	})
}

// TestNeeds lets pods wait for a ConfigMap, a Secret and the claim of a volume.
func TestNeeds(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		volume, variable, claim := newPod("volume", "node-0"), newPod("variable", "node-0"), newPod("claim", "node-0")
		volume.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}}
		variable.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k",
		}}}}
		claim.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc"}}}}
		pods := []*corev1.Pod{volume, variable, claim}
		pvc := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pvc"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pv",
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		env.Create(volume, variable, claim, pvc)
		env.Settle()
		states := func() (all []string) {
			for _, p := range pods {
				env.Get(p)
				all = append(all, state(p))
			}
			return all
		}
		if got := states(); !slices.Equal(got, []string{"Pending ContainerCreating", "Pending CreateContainerConfigError", "Pending ContainerCreating"}) {
			t.Errorf("%q", got)
		}
		for _, want := range []string{
			`node-0 FailedMount MountVolume.SetUp failed for volume "v" : configmap "m" not found`,
			`node-0 Failed Error: secret "s" not found`,
			"node-0 FailedMount Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC default/pvc: PVC is not bound",
		} {
			if got := eventsOf(t, env); !slices.Contains(got, want) {
				t.Errorf("no event %q in %q", want, got)
			}
		}
		env.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		env.Settle()
		env.Get(variable)
		if got := variable.Status.ContainerStatuses[0].State.Waiting.Message; got != "couldn't find key k in Secret default/s" {
			t.Errorf("%q", got)
		}
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
		env.Update(s, func() { s.Data = map[string][]byte{"k": []byte("v")} })
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}})
		env.UpdateStatus(pvc, func() { pvc.Status.Phase = corev1.ClaimBound })
		env.Settle()
		if got := states(); !slices.Equal(got, []string{"Running running", "Running running", "Running running"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestResourceClaims lets a pod wait until its claim is allocated and reserved, and the claim of
// another one until it is there.
func TestResourceClaims(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		p := newPod("p", "node-0")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: new("claim")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "r"}}
		env.Create(p)
		env.Settle()
		env.Get(p)
		want := `node-0 FailedPrepareDynamicResources Failed to prepare dynamic resources: fetch ResourceClaim claim: resourceclaims.resource.k8s.io "claim" not found`
		if got := eventsOf(t, env); state(p) != "Pending ContainerCreating" || !slices.Contains(got, want) {
			t.Errorf("%s, %q", state(p), got)
		}
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "d", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class"}}}
		env.Create(c)
		env.Settle()
		if env.Get(p); state(p) != "Pending ContainerCreating" {
			t.Error(state(p))
		}
		env.UpdateStatus(c, func() {
			c.Status.Allocation = &resourcev1.AllocationResult{}
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: p.UID}}
		})
		env.WaitFor(t.Context(), p, func() bool { return state(p) == "Running running" })
	})
}

// TestFinalizer deletes a pod that a finalizer keeps: it ends, and nothing more is written.
func TestFinalizer(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		p := newPod("p", "node-0")
		p.Finalizers = []string{"example.com/keep"}
		env.Create(p)
		env.Settle()
		env.Delete(p)
		env.Settle()
		if env.Get(p); state(p) != "Succeeded Completed" || *p.DeletionGracePeriodSeconds != 0 {
			t.Errorf("%s, %+v", state(p), p.ObjectMeta)
		}
		before := len(env.Writes())
		time.Sleep(10 * time.Minute)
		for _, w := range env.Writes()[before:] {
			if strings.Contains(w.Path, "/pods/") {
				t.Error(w)
			}
		}
		env.Update(p, func() { p.Finalizers = nil })
		env.WaitGone(t.Context(), p)
	})
}

func TestInvalidAnnotation(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		p := simulating(newPod("p", "node-0"), "containers: {c: {exit: 1000}}")
		env.Create(p)
		env.WaitFor(t.Context(), p, func() bool { return p.Status.Phase == corev1.PodRunning })
		env.Settle()
		want := `node-0 InvalidSimulation annotation kapok.dev/simulation: container "c": exit 1000: must be between 0 and 255`
		if got := eventsOf(t, env); !slices.Contains(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// TestOtherNodes leaves pods alone whose nodes are not simulated, do not exist, or have failed.
func TestOtherNodes(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
		a, b, c := newPod("a", "real"), newPod("b", "absent"), newPod("c", "node-0")
		env.Create(real, a, b, c)
		env.WaitFor(t.Context(), c, func() bool { return c.Status.Phase == corev1.PodRunning })
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
		env.Update(n, func() { n.Annotations[simulated.NodeAnnotation] = simulated.Down })
		env.Delete(c)
		env.Settle()
		for _, p := range []*corev1.Pod{a, b} {
			if env.Get(p); p.Status.Phase != corev1.PodPending || p.Status.HostIP != "" {
				t.Errorf("%s: %+v", p.Name, p.Status)
			}
		}
		if env.Get(c); state(c) != "Running running" {
			t.Errorf("%s", state(c))
		}
		env.Update(n, func() { n.Annotations[simulated.NodeAnnotation] = simulated.Simulated })
		env.WaitGone(t.Context(), c)
		env.Update(real, func() { real.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"} })
		env.WaitFor(t.Context(), a, func() bool { return a.Status.Phase == corev1.PodRunning })
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "absent", Annotations: map[string]string{simulated.NodeAnnotation: simulated.Simulated}}})
		env.WaitFor(t.Context(), b, func() bool { return b.Status.Phase == corev1.PodRunning })
	})
}

// TestPodCIDR gives pods addresses of the range of their node, and those of the host to its own.
func TestPodCIDR(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 0)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{simulated.NodeAnnotation: simulated.Simulated}}}
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.7.0.0/24", []string{"10.7.0.0/24", "fd00::/64"}
		a, b := newPod("a", "n"), newPod("b", "n")
		b.Spec.HostNetwork = true
		env.Create(n, a, b)
		env.Settle()
		env.Get(a)
		env.Get(b)
		if a.Status.PodIP != "10.7.0.1" || len(a.Status.PodIPs) != 2 || b.Status.PodIP == "" || b.Status.PodIP != b.Status.HostIP {
			t.Errorf("%v, %v", a.Status.PodIPs, b.Status.PodIPs)
		}
	})
}

// TestAtRest counts the writes of a day in which nothing happens but heartbeats.
func TestAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 2)
		env.Create(
			newPod("runs", "node-0"), newPod("waits", "nowhere"),
			simulating(newPod("done", "node-1"), "containers: {c: {unready: true}}"),
			simulating(newPod("invalid", "node-1"), "["),
		)
		missing := newPod("missing", "node-1")
		missing.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "absent"}}}}
		env.Create(missing)
		env.Settle()
		from := time.Now()
		const hours = 4
		time.Sleep(hours * time.Hour)
		leases, statuses := 0, 0
		for _, w := range env.Requests() {
			switch {
			case w.Time.Before(from) || w.Method == "GET":
			case strings.Contains(w.Path, "/leases/"):
				leases++
			case strings.HasPrefix(w.Path, "/api/v1/nodes/"):
				statuses++
			default:
				t.Errorf("%v", w)
			}
		}
		if statuses != 2*hours*60/5 {
			t.Errorf("%d heartbeats in the status of nodes", statuses)
		}
		if want := 2 * hours * 360; leases < want-2 || leases > want+2 {
			t.Errorf("%d renewals, want %d", leases, want)
		}
	})
}
