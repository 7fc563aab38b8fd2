package persistentvolume_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var names = []string{"persistentvolume-binder", "pvc-protection", "pv-protection", "persistentvolume-expander", "local-path-provisioner"}

func newVolume(name, size string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: policy, StorageClassName: "c",
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/volumes/" + name}},
	}}
}

func newClaim(name, size string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}

func newPod(name, claim string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{
		NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
}

// TestInvariants checks what the binder promises while claims, volumes and pods come and go at
// random, and requests fail: no volume has two claims and no claim two volumes, nothing that the
// policy Retain keeps is deleted, and a claim of a pod with a node stays.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &history{r: rand.New(rand.NewPCG(seed, uint64(i))), kept: map[types.UID]string{}, held: map[types.UID]types.UID{}, given: map[string]string{}, faults: i%2 == 1}
			var opts []kapoktest.Option
			if h.faults {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.02, Lost: 0.03, DelayWatch: 0.1, CutWatch: 0.02,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				h.t, h.env = t, env
				controllertest.Run(t, env, names...)
				for range 80 {
					h.step()
					time.Sleep(time.Duration(h.r.IntN(1500)) * time.Millisecond)
					h.check()
				}
				if h.faults {
					env.EndFaults()
				}
				time.Sleep(10 * time.Minute)
				h.check()
				h.checkEnd()
			}, opts...)
		})
	}
}

// A history is one random one.
type history struct {
	t       *testing.T
	env     *kapoktest.Env
	r       *rand.Rand
	faults  bool
	volumes int
	held    map[types.UID]types.UID // pods by their claims, which were there without being deleted
	given   map[string]string       // names of claims by the volumes that a user gave to them
	kept    map[types.UID]string    // names of volumes with the policy Retain that no user has deleted
}

func (h *history) step() {
	c := h.env.Client()
	ctx := h.env.Context()
	name := fmt.Sprint("d", h.r.IntN(6))
	size := fmt.Sprint(1+h.r.IntN(4), "Gi")
	ignore := func(err error) {
		if err != nil && !h.faults && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
			h.t.Error(err)
		}
	}
	switch h.r.IntN(8) {
	case 0, 1:
		policy := corev1.PersistentVolumeReclaimRetain
		if h.r.IntN(2) == 0 {
			policy = corev1.PersistentVolumeReclaimDelete
		}
		h.volumes++
		v := newVolume(fmt.Sprint("v", h.volumes), size, policy)
		if h.r.IntN(4) == 0 {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name}
			h.given[v.Name] = name
		}
		ignore(c.Create(ctx, v))
		if policy == corev1.PersistentVolumeReclaimRetain && v.UID != "" {
			h.kept[v.UID] = v.Name
		}
	case 2, 3, 4:
		claim := newClaim(name, size, new("c"))
		if h.volumes > 0 && h.r.IntN(4) == 0 {
			claim.Spec.VolumeName = fmt.Sprint("v", 1+h.r.IntN(h.volumes))
		}
		ignore(c.Create(ctx, claim))
	case 5:
		ignore(c.Delete(ctx, newClaim(name, size, nil)))
	case 6:
		ignore(c.Create(ctx, newPod(name, name)))
	case 7:
		ignore(c.Delete(ctx, newPod(name, name), client.GracePeriodSeconds(0)))
	}
}

func (h *history) lists() (volumes corev1.PersistentVolumeList, claims corev1.PersistentVolumeClaimList, pods corev1.PodList) {
	for _, list := range []client.ObjectList{&pods, &claims, &volumes} {
		for err := h.env.Client().List(h.env.Context(), list); err != nil; err = h.env.Client().List(h.env.Context(), list) {
			if !h.faults {
				h.t.Fatal(err)
			}
		}
	}
	return volumes, claims, pods
}

// check checks what holds at any moment. What it reads may change in between only by controllers.
func (h *history) check() {
	volumes, claims, pods := h.lists()
	there := map[types.UID]bool{}
	of := map[string]string{}
	for _, v := range volumes.Items {
		there[v.UID] = true
	}
	for _, c := range claims.Items {
		there[c.UID] = true
	}
	running := map[types.UID]bool{}
	for _, p := range pods.Items {
		running[p.UID] = true
	}
	for c, p := range h.held {
		if running[p] && !there[c] {
			h.t.Errorf("the claim %s is gone, and a pod has it", c)
		}
	}
	for _, c := range claims.Items {
		for _, p := range pods.Items {
			if c.DeletionTimestamp == nil && p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == c.Name {
				h.held[c.UID] = p.UID
			}
		}
	}
	for uid, name := range h.kept {
		if !there[uid] {
			h.t.Errorf("the volume %s is gone, whose policy is Retain", name)
		}
	}
	for _, c := range claims.Items {
		if c.Status.Phase != corev1.ClaimBound {
			continue
		}
		if other, ok := of[c.Spec.VolumeName]; ok {
			h.t.Errorf("the volume %s is bound to the claims %s and %s", c.Spec.VolumeName, other, c.Name)
		}
		of[c.Spec.VolumeName] = c.Name
		if name := h.given[c.Spec.VolumeName]; name != "" && name != c.Name {
			h.t.Errorf("the volume %s, which is for the claim %s, is bound to %s", c.Spec.VolumeName, name, c.Name)
		}
	}
}

// checkEnd checks what holds when nothing happens any more.
func (h *history) checkEnd() {
	volumes, claims, pods := h.lists()
	byName := map[string]corev1.PersistentVolume{}
	bound := map[types.UID]string{}
	for _, v := range volumes.Items {
		byName[v.Name] = v
		if v.Status.Phase != corev1.VolumeBound {
			continue
		}
		uid := v.Spec.ClaimRef.UID
		if other, ok := bound[uid]; ok {
			h.t.Errorf("the volumes %s and %s are bound to one claim", v.Name, other)
		}
		bound[uid] = v.Name
	}
	claimed := map[string]bool{}
	for _, c := range claims.Items {
		claimed[c.Name] = true
		switch c.Status.Phase {
		case corev1.ClaimBound:
			v, ok := byName[c.Spec.VolumeName]
			has, want := v.Spec.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
			if !ok || v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef.UID != c.UID {
				h.t.Errorf("the claim %s is bound to %s, which is not bound to it", c.Name, c.Spec.VolumeName)
			} else if has.Cmp(want) < 0 && c.Annotations["pv.kubernetes.io/bound-by-controller"] != "" {
				h.t.Errorf("the claim %s asks for %v and has %v", c.Name, &want, &has)
			}
		case corev1.ClaimPending:
			for _, v := range volumes.Items {
				has, want := v.Spec.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
				if c.Spec.VolumeName == "" && v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable && has.Cmp(want) >= 0 {
					h.t.Errorf("the claim %s waits, and the volume %s is free", c.Name, v.Name)
				}
			}
		}
	}
	for _, c := range claims.Items {
		used := false
		for _, p := range pods.Items {
			used = used || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == c.Name
		}
		if c.DeletionTimestamp != nil && !used {
			h.t.Errorf("the claim %s is kept, and no pod has it", c.Name)
		}
	}
	for _, v := range volumes.Items {
		if v.Status.Phase == corev1.VolumeBound && !claimed[v.Spec.ClaimRef.Name] {
			h.t.Errorf("the volume %s is bound to a claim that does not exist", v.Name)
		}
	}
}

// TestProtection checks that a claim of a pod with a node is kept, and goes with the pod.
func TestProtection(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		claim, pod := newClaim("d", "1Gi", new("c")), newPod("p", "d")
		env.Create(newVolume("v", "1Gi", corev1.PersistentVolumeReclaimRetain), claim, pod)
		env.Settle()
		if err := env.Client().Delete(env.Context(), claim); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !env.Exists(claim) {
			t.Fatal("the claim of a pod is gone")
		}
		if err := env.Client().Delete(env.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if env.Exists(claim) {
			t.Error("the claim is kept, and no pod has it")
		}
	})
}

// TestWritesAtRest counts the writes of a virtual day in which nothing happens.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		broken := newVolume("broken", "5Gi", corev1.PersistentVolumeReclaimDelete)
		broken.Spec.HostPath.Path = "/elsewhere"
		gone := newClaim("gone", "5Gi", new("c"))
		env.Create(newVolume("v", "1Gi", corev1.PersistentVolumeReclaimRetain), broken)
		env.Settle()
		env.Create(newClaim("bound", "1Gi", new("c")), newClaim("waits", "9Gi", new("c")), newClaim("none", "1Gi", new("")), gone)
		env.Settle()
		env.Delete(gone)
		env.Settle()
		if env.Get(broken); broken.Status.Phase != corev1.VolumeFailed {
			t.Errorf("the volume is %s", broken.Status.Phase)
		}
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes, want none", n)
		}
	})
}

// TestRefused counts the attempts of an hour in which the server refuses what the controllers
// write.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "persistentvolume-binder")
		env.Create(newVolume("v", "1Gi", corev1.PersistentVolumeReclaimRetain), newClaim("d", "1Gi", new("c")))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, time.Hour); n == 0 || n > 50 {
			t.Errorf("%d writes in an hour", n)
		}
	})
}

// TestDefaultClass checks that claims which name no class get a default class that is given later,
// the newest of several, and those that want none do not.
func TestDefaultClass(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		unnamed, none := newClaim("unnamed", "1Gi", nil), newClaim("none", "1Gi", new(""))
		env.Create(unnamed, none)
		env.Settle()
		class := func(name string) *storagev1.StorageClass {
			return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "d.example.com"}
		}
		older, newer := class("a"), class("b")
		env.Create(older)
		time.Sleep(time.Minute)
		env.Create(newer)
		env.Settle()
		if env.Get(unnamed); unnamed.Spec.StorageClassName != nil {
			t.Errorf("the claim has the class %s, which is no default", *unnamed.Spec.StorageClassName)
		}
		for _, c := range []*storagev1.StorageClass{newer, older} {
			env.Update(c, func() { c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"} })
		}
		env.Settle()
		if env.Get(unnamed); unnamed.Spec.StorageClassName == nil || *unnamed.Spec.StorageClassName != "b" {
			t.Errorf("the claim has the class %v, want b", unnamed.Spec.StorageClassName)
		}
		if unnamed.Annotations["volume.kubernetes.io/storage-provisioner"] != "d.example.com" {
			t.Errorf("the claim has no provisioner: %v", unnamed.Annotations)
		}
		if env.Get(none); *none.Spec.StorageClassName != "" {
			t.Errorf("the claim that wants no class has %s", *none.Spec.StorageClassName)
		}
	})
}
