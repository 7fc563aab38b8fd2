package localpath_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/controllers/localpath"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var names = []string{"persistentvolume-binder", "pvc-protection", "pv-protection", "local-path-provisioner"}

func newClaim(class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

func newClass(mode storagev1.VolumeBindingMode, policy corev1.PersistentVolumeReclaimPolicy) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Provisioner: localpath.Provisioner, VolumeBindingMode: &mode, ReclaimPolicy: &policy}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: "host-" + name}}}
}

// TestWaitForFirstConsumer follows a claim from its creation to its end.
func TestWaitForFirstConsumer(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		claim := newClaim(new("l"))
		env.Create(newNode("a"), newNode("b"), newClass(storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete), claim)
		time.Sleep(time.Minute)
		if env.Get(claim); claim.Status.Phase != corev1.ClaimPending || claim.Spec.VolumeName != "" {
			t.Fatalf("the claim is %s without a pod", claim.Status.Phase)
		}
		env.Update(claim, func() { metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "b") })
		env.Settle()
		if env.Get(claim); claim.Status.Phase != corev1.ClaimBound {
			t.Fatalf("the claim is %s", claim.Status.Phase)
		}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		env.Get(v)
		if v.Name != "pvc-"+string(claim.UID) || v.Status.Phase != corev1.VolumeBound {
			t.Errorf("the volume %s is %s", v.Name, v.Status.Phase)
		}
		if p := v.Spec.HostPath; p == nil || p.Path != localpath.DefaultDir+"/"+v.Name+"_default_d" || *p.Type != corev1.HostPathDirectoryOrCreate {
			t.Errorf("the volume is at %v", p)
		}
		if on := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; on.Key != corev1.LabelHostname || on.Values[0] != "host-b" {
			t.Errorf("the volume is on %v", on)
		}
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
		env.Delete(claim)
		env.Settle()
		if env.Exists(v) {
			t.Error("the volume is kept")
		}
	})
}

// TestRetain checks that a volume with the policy Retain stays.
func TestRetain(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		claim := newClaim(new("l"))
		env.Create(newClass(storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain), claim)
		env.Settle()
		env.Get(claim)
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		env.Get(v)
		if v.Spec.NodeAffinity != nil {
			t.Errorf("the volume is on a node, and there is none: %v", v.Spec.NodeAffinity)
		}
		env.Delete(claim)
		time.Sleep(time.Hour)
		if env.Get(v); v.Status.Phase != corev1.VolumeReleased {
			t.Errorf("the volume is %s", v.Status.Phase)
		}
	})
}

// TestRefused checks that what a directory cannot do is announced, once.
func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"block volumes": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
		"selector": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"access mode": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		},
	} {
		t.Run(name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				controllertest.Run(t, env, names...)
				claim := newClaim(new("l"))
				change(claim)
				env.Create(newClass(storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete), claim)
				time.Sleep(time.Minute)
				var events corev1.EventList
				if err := env.Client().List(env.Context(), &events); err != nil {
					t.Fatal(err)
				}
				said := false
				for _, e := range events.Items {
					said = said || e.Reason == "ProvisioningFailed" && strings.Contains(e.Message, name)
				}
				if !said {
					t.Errorf("no event says that %s is not supported: %v", name, events.Items)
				}
				if n := controllertest.Writes(env, time.Hour); n > 0 {
					t.Errorf("%d writes at rest", n)
				}
			})
		})
	}
}

// TestDefault checks the class that an option creates, and the directory.
func TestDefault(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Settle()
		claim := newClaim(nil)
		env.Create(newNode("a"), claim)
		env.Settle()
		env.Get(claim)
		if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != localpath.ClassName {
			t.Fatalf("the claim has the class %v", claim.Spec.StorageClassName)
		}
		env.Update(claim, func() { metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "a") })
		env.Settle()
		env.Get(claim)
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		if env.Get(v); !strings.HasPrefix(v.Spec.HostPath.Path, "/srv/volumes/pvc-") {
			t.Errorf("the volume is at %s", v.Spec.HostPath.Path)
		}
	}, kapoktest.Controllers(controllers.Options{Names: names, LocalPath: localpath.Options{Dir: "/srv/volumes", Default: true}}))
}

// TestOptions checks which directories are refused.
func TestOptions(t *testing.T) {
	for dir, ok := range map[string]bool{"": true, "/a/b": true, "a": false, "/": false, "/a/../b": false, "/a/": false} {
		if err := (localpath.Options{Dir: dir}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
