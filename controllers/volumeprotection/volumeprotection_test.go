package volumeprotection_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAlone follows a class, a volume, a claim and a pod that are deleted in the order in which the
// first ones are used by the next ones, on a server that removes no finalizers of storage itself.
func TestAlone(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "persistentvolume-binder", "pvc-protection", "pv-protection", "volumeattributesclass-protection-controller")
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		access := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, DriverName: "d.example.com", Parameters: map[string]string{"k": "v"}}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: access, StorageClassName: "c", VolumeAttributesClassName: new("a"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}},
		}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: access, StorageClassName: new("c"), VolumeAttributesClassName: new("a"), Resources: corev1.VolumeResourceRequirements{Requests: size},
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{
			NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}},
		}}
		env.Create(class, volume, claim, pod)
		env.Settle()
		if env.Get(claim); claim.Status.Phase != corev1.ClaimBound {
			t.Fatalf("the claim is %s", claim.Status.Phase)
		}
		used := []client.Object{class, volume, claim}
		for _, o := range used {
			if err := env.Client().Delete(env.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		for _, o := range used {
			if !env.Exists(o) {
				t.Errorf("the %T is gone, and in use", o)
			}
		}
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
		if err := env.Client().Delete(env.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, o := range used {
			if env.Exists(o) {
				t.Errorf("the %T is kept, and not in use", o)
			}
		}
	}, kapoktest.Server(func(o *kapok.Options) { o.Housekeeping = []string{"-storage-protection"} }))
}
