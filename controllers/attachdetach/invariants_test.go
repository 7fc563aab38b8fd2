package attachdetach_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	controllerName = "persistentvolume-attach-detach-controller"
	keep           = "example.com/attacher" // the finalizer of the driver
)

// create creates a volume with a claim, which are bound.
func create(env *kapoktest.Env, name string, mode corev1.PersistentVolumeAccessMode) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: name, StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{mode},
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}
	env.Create(claim)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec = corev1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: claim.UID},
	}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: name}
	env.Create(pv)
	env.UpdateStatus(claim, func() { claim.Status.Phase = corev1.ClaimBound })
}

func createNode(env *kapoktest.Env, name string) {
	env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
}

func newPod(name, node, claim string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = node, new(int64(0))
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p
}

func attachmentName(volume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume+"example.com"+node)))
}

// TestInvariants checks at every step of random histories that no volume which allows one node has
// two VolumeAttachments, that no volume is detached from a node that uses it, and that a node may
// mount only what is attached to it; and in the end that exactly the volumes that pods use are
// attached. Pods, nodes and the driver act at random, and controllers are restarted.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 30 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i))), pods: map[string]*corev1.Pod{}}
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.03, DelayWatch: 0.1, CutWatch: 0.02,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { h.t, h.env = t, env; h.play() }, opts...)
		})
	}
}

var (
	volumes = []string{"once", "once2", "many"}
	nodes   = []string{"a", "b", "c"}
)

// A history is one random one.
type history struct {
	t    *testing.T
	env  *kapoktest.Env
	r    *rand.Rand
	pods map[string]*corev1.Pod
	n    int
	stop context.CancelFunc
}

func (h *history) play() {
	h.restart()
	for _, n := range nodes {
		createNode(h.env, n)
	}
	create(h.env, "once", corev1.ReadWriteOnce)
	create(h.env, "once2", corev1.ReadWriteOncePod)
	create(h.env, "many", corev1.ReadWriteMany)
	for range 60 {
		h.step()
		time.Sleep(time.Duration(h.r.IntN(3000)) * time.Millisecond)
		h.check()
	}
	h.env.EndFaults()
	h.end()
}

func (h *history) restart() {
	if h.stop != nil {
		h.stop()
	}
	o := controllers.Options{Names: []string{controllerName}}
	o.Manager.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	m, err := controllers.New(h.env.Config(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.env.Context())
	h.stop = stop
	h.env.Go(func(context.Context) error { return m.Start(ctx) })
}

// step does something at random.
func (h *history) step() {
	switch h.r.IntN(8) {
	case 0, 1:
		h.n++
		p := newPod(fmt.Sprintf("p%d", h.n), nodes[h.r.IntN(len(nodes))], volumes[h.r.IntN(len(volumes))])
		h.env.Create(p)
		h.pods[p.Name] = p
	case 2:
		if names := slices.Sorted(maps.Keys(h.pods)); len(names) > 0 {
			name := names[h.r.IntN(len(names))]
			h.env.Delete(h.pods[name])
			delete(h.pods, name)
		}
	case 3, 4, 5:
		h.drive(h.r.IntN(4) == 0)
	case 6:
		h.mount()
	case 7:
		if h.r.IntN(4) == 0 {
			h.restart()
		}
	}
}

func (h *history) attachments() (all []storagev1.VolumeAttachment) {
	for _, v := range volumes {
		for _, n := range nodes {
			a := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(v, n)}}
			if h.env.Exists(&a) {
				h.env.Get(&a)
				all = append(all, a)
			}
		}
	}
	return all
}

// drive acts as the driver does: it attaches, or fails, and detaches.
func (h *history) drive(fails bool) {
	for _, a := range h.attachments() {
		switch {
		case a.DeletionTimestamp != nil:
			h.env.Update(&a, func() { a.Finalizers = nil })
		case fails && !a.Status.Attached:
			h.env.UpdateStatus(&a, func() { a.Status.AttachError = &storagev1.VolumeError{Message: "no"} })
		case !a.Status.Attached:
			h.env.Update(&a, func() { a.Finalizers = []string{keep} })
			h.env.UpdateStatus(&a, func() { a.Status.Attached, a.Status.AttachError = true, nil })
		}
	}
}

// mount acts as the kubelets do: a node uses the volumes of its pods that it may mount, and
// unmounts the others.
func (h *history) mount() {
	for _, name := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		h.env.Get(n)
		h.env.UpdateStatus(n, func() {
			n.Status.VolumesInUse = nil
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			for _, a := range n.Status.VolumesAttached {
				if h.used(name, a.Name) {
					n.Status.VolumesInUse = append(n.Status.VolumesInUse, a.Name)
				}
			}
		})
	}
}

func (h *history) used(node string, volume corev1.UniqueVolumeName) bool {
	for _, p := range h.pods {
		claim := p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
		if p.Spec.NodeName == node && volume == corev1.UniqueVolumeName("kubernetes.io/csi/example.com^"+claim) {
			return true
		}
	}
	return false
}

func (h *history) check() {
	h.t.Helper()
	at := map[string][]string{}
	for _, a := range h.attachments() {
		v := *a.Spec.Source.PersistentVolumeName
		at[v] = append(at[v], a.Spec.NodeName)
		if a.DeletionTimestamp == nil {
			continue
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Spec.NodeName}}
		h.env.Get(n)
		if slices.Contains(n.Status.VolumesInUse, corev1.UniqueVolumeName("kubernetes.io/csi/example.com^"+v)) {
			h.t.Errorf("%s is detached from %s, which uses it", v, n.Name)
		}
	}
	for _, v := range []string{"once", "once2"} {
		if len(at[v]) > 1 {
			h.t.Errorf("%s is attached to %v", v, at[v])
		}
	}
}

// end lets everything come to rest, and compares it with what the pods use.
func (h *history) end() {
	for range 60 {
		h.drive(false)
		h.mount()
		time.Sleep(10 * time.Second)
		h.check()
	}
	want := map[string]map[string]bool{} // nodes of the pods of a volume
	for _, p := range h.pods {
		v := p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
		if want[v] == nil {
			want[v] = map[string]bool{}
		}
		want[v][p.Spec.NodeName] = true
	}
	got := map[string]map[string]bool{}
	for _, a := range h.attachments() {
		v := *a.Spec.Source.PersistentVolumeName
		if !want[v][a.Spec.NodeName] {
			h.t.Errorf("%s is attached to %s, which has no pod that uses it", v, a.Spec.NodeName)
		}
		if got[v] == nil {
			got[v] = map[string]bool{}
		}
		got[v][a.Spec.NodeName] = a.Status.Attached
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Spec.NodeName}}
		h.env.Get(n)
		reported := slices.ContainsFunc(n.Status.VolumesAttached, func(r corev1.AttachedVolume) bool {
			return r.Name == corev1.UniqueVolumeName("kubernetes.io/csi/example.com^"+v)
		})
		if !reported {
			h.t.Errorf("the status of %s lacks %s", n.Name, v)
		}
	}
	for v, on := range want {
		attached := len(got[v])
		if v == "many" && attached != len(on) || attached == 0 {
			h.t.Errorf("%s is attached to %v, want %v", v, got[v], on)
		}
	}
}

// TestLostAnswer checks that a volume is not attached to a second node while the answer about the
// first one is lost.
func TestLostAnswer(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		createNode(env, "a")
		createNode(env, "b")
		create(env, "v", corev1.ReadWriteOnce)
		env.Create(newPod("p", "a", "v"))
		env.Create(newPod("q", "b", "v"))
		env.BeginFaults()
		controllertest.Run(t, env, controllerName)
		time.Sleep(time.Minute)
		var list storagev1.VolumeAttachmentList
		if err := env.Client().List(env.Context(), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			t.Errorf("%d attachments, want 1", len(list.Items))
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{Lost: 1, Begin: kapoktest.BeginManually}))
}

// TestWritesAtRest counts the writes of a virtual day with a volume that is attached, and one that
// waits for another node.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, controllerName)
		createNode(env, "a")
		createNode(env, "b")
		create(env, "v", corev1.ReadWriteOnce)
		env.Create(newPod("p", "a", "v"))
		env.Settle()
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName("v", "a")}}
		env.Get(a)
		env.UpdateStatus(a, func() { a.Status.Attached = true })
		env.Create(newPod("q", "b", "v"))
		env.Settle()
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes in a day, want none", n)
		}
	})
}

// TestReadOnly counts the attempts of a virtual hour in which the server refuses to attach.
func TestReadOnly(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, controllerName)
		createNode(env, "a")
		create(env, "v", corev1.ReadWriteOnce)
		env.Create(newPod("p", "a", "v"))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, time.Hour); n < 20 || n > 40 {
			t.Errorf("%d attempts in an hour, want one in two minutes", n)
		}
	})
}

// TestForeignAttachments checks that attachments of other programs stay.
func TestForeignAttachments(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, controllerName)
		createNode(env, "a")
		create(env, "v", corev1.ReadWriteOnce)
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
		a.Spec = storagev1.VolumeAttachmentSpec{Attacher: "example.com", NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}}
		env.Create(a)
		env.UpdateStatus(a, func() { a.Status.Attached = true })
		uid := a.UID
		time.Sleep(time.Hour)
		if env.Get(a); a.UID != uid || a.DeletionTimestamp != nil {
			t.Error("the attachment was deleted")
		}
	})
}
