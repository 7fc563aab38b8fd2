package scheduler_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, env *kapoktest.Env) {
	t.Helper()
	m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := (scheduler.Options{}).Add(m); err != nil {
		t.Fatal(err)
	}
	env.Go(m.Start)
}

func node(name, cpu string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func pod(name, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu),
	}}}}
	return p
}

func createNode(env *kapoktest.Env, n *corev1.Node) {
	status := n.Status
	env.Create(n)
	env.Update(n, func() { n.Spec.Taints = nil }) // as the controller of nodes does when they are ready
	env.UpdateStatus(n, func() { n.Status = status })
}

// TestSchedules checks the life of pods: one waits without nodes, has the reason in its status,
// gets one that comes, and the next one waits until it has gone.
func TestSchedules(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		first, second := pod("first", "800m"), pod("second", "800m")
		expect := func(p *corev1.Pod, node, message string) {
			t.Helper()
			env.Settle()
			env.Get(p)
			said := ""
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					said = c.Reason + ": " + c.Message
				}
			}
			if p.Spec.NodeName != node || said != message {
				t.Errorf("pod %s on %q, %q; want %q, %q", p.Name, p.Spec.NodeName, said, node, message)
			}
		}
		env.Create(first)
		expect(first, "", "Unschedulable: no nodes available to schedule pods")
		createNode(env, node("a", "1"))
		time.Sleep(time.Minute)
		expect(first, "a", "")
		env.Create(second)
		expect(second, "", "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
		if err := env.Client().Delete(env.Context(), first, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect(second, "a", "")
		var events corev1.EventList
		if err := env.Client().List(env.Context(), &events); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, e := range events.Items {
			said = append(said, fmt.Sprint(e.InvolvedObject.Name, " ", e.Type, " ", e.Reason, ": ", e.Message))
		}
		for _, want := range []string{
			"first Warning FailedScheduling: no nodes available to schedule pods", "first Normal Scheduled: Successfully assigned default/first to a",
			"second Warning FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", "second Normal Scheduled: Successfully assigned default/second to a",
		} {
			if !strings.Contains(strings.Join(said, "\n"), want) {
				t.Errorf("no event %q in\n%s", want, strings.Join(said, "\n"))
			}
		}
	})
}

// TestFaults checks that many pods get nodes, each of them within what it has, although requests
// fail, watches lag and answers are lost.
func TestFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		for i := range 5 {
			createNode(env, node(fmt.Sprint("n", i), "1"))
		}
		for i := range 50 {
			env.Create(pod(fmt.Sprint("p", i), "100m"))
			time.Sleep(100 * time.Millisecond)
		}
		env.Create(pod("more", "100m"))
		time.Sleep(30 * time.Minute)
		var pods corev1.PodList
		if err := env.Client().List(env.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, p := range pods.Items {
			counts[p.Spec.NodeName]++
		}
		for i := range 5 {
			if n := counts[fmt.Sprint("n", i)]; n != 10 {
				t.Errorf("n%d has %d pods, want 10", i, n)
			}
		}
		if counts[""] != 1 {
			t.Errorf("%d pods have no node, want 1", counts[""])
		}
	}, kapoktest.WithFaults(3, kapoktest.Faults{Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.05, Lost: 0.1, DelayWatch: 0.2, CutWatch: 0.01, Begin: kapoktest.BeginSynced}))
}

// TestWritesAtRest counts the writes of a virtual day in which a pod that no node can take waits.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		createNode(env, node("a", "1"))
		env.Create(pod("huge", "100"))
		time.Sleep(time.Hour)
		from := time.Now()
		time.Sleep(24 * time.Hour)
		writes := 0
		for _, r := range env.Writes() {
			if r.Time.After(from) && !strings.Contains(r.Path, "/events") && !strings.Contains(r.Path, "/leases") {
				writes++
			}
		}
		if writes > 0 {
			t.Errorf("%d writes in a day", writes)
		}
	})
}

// TestVolumes checks pods whose volumes are chosen or provisioned when they have a node.
func TestVolumes(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		createNode(env, node("a", "4"))
		createNode(env, node("b", "4"))
		late := storagev1.VolumeBindingWaitForFirstConsumer
		env.Create(
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "dynamic"}, Provisioner: "example.com/disks", VolumeBindingMode: &late},
		)
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-of-b"}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", Capacity: size, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}}},
		}}
		env.Create(pv)
		env.UpdateStatus(pv, func() { pv.Status.Phase = corev1.VolumeAvailable })
		claims := map[string]*corev1.PersistentVolumeClaim{}
		pods := map[string]*corev1.Pod{}
		for _, class := range []string{"local", "dynamic"} {
			claims[class] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: class}, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new(class), AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
			}}
			pods[class] = pod(class, "100m")
			pods[class].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: class}}}}
			env.Create(pods[class])
			env.Settle()
			env.Get(pods[class])
			want := fmt.Sprintf("0/2 nodes are available: persistentvolumeclaim %q not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.", class)
			if c := pods[class].Status.Conditions; len(c) != 1 || c[0].Message != want {
				t.Errorf("conditions %v, want %s", c, want)
			}
			env.Create(claims[class])
		}
		time.Sleep(time.Minute)
		env.Get(pv)
		if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claims["local"].UID {
			t.Errorf("the volume is for %v", ref)
		}
		env.Get(claims["dynamic"])
		selected := claims["dynamic"].Annotations["volume.kubernetes.io/selected-node"]
		if selected == "" {
			t.Error("no node is selected for the claim")
		}
		env.Update(claims["dynamic"], func() { delete(claims["dynamic"].Annotations, "volume.kubernetes.io/selected-node") }) // it has failed
		time.Sleep(time.Minute)
		env.Get(pods["dynamic"])
		const failed = `running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "dynamic"`
		if c := pods["dynamic"].Status.Conditions; len(c) != 1 || c[0].Reason != corev1.PodReasonSchedulerError || c[0].Message != failed {
			t.Errorf("conditions %v, want %s", c, failed)
		}
		env.Get(claims["dynamic"])
		if selected = claims["dynamic"].Annotations["volume.kubernetes.io/selected-node"]; selected == "" {
			t.Error("no node is selected again")
		}
		bind := func(claim *corev1.PersistentVolumeClaim, volume string) { // as the controller of volumes does
			env.Update(claim, func() {
				claim.Spec.VolumeName = volume
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
			})
			env.UpdateStatus(claim, func() { claim.Status.Phase = corev1.ClaimBound })
		}
		bind(claims["local"], "disk-of-b")
		other := pv.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: "made"}
		other.Spec.StorageClassName, other.Spec.ClaimRef = "dynamic", nil
		other.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{selected}
		env.Create(other)
		bind(claims["dynamic"], "made")
		time.Sleep(time.Minute)
		for class, want := range map[string]string{"local": "b", "dynamic": selected} {
			env.Get(pods[class])
			if got := pods[class].Spec.NodeName; got != want {
				t.Errorf("pod %s is on %q, want %q", class, got, want)
			}
		}
	})
}
