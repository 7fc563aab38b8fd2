package resourceclaim_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quantity = resource.MustParse("1Gi")

// names are the controllers of the tests.
var names = []string{"resourceclaim-controller", "ephemeral-volume-controller"}

func pod(name, template string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: &template}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity}},
		}},
	}}}}
	return p
}

func template(name string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}}
	return t
}

// TestWritesAtRest counts the writes of a virtual day with a pod that has all its claims, one that
// has ended, and one whose template does not exist.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, names...)
		ended := pod("ended", "gpu")
		env.Create(template("gpu"), pod("runs", "gpu"), ended)
		env.Settle()
		env.UpdateStatus(ended, func() { ended.Status.Phase = corev1.PodSucceeded })
		env.Create(pod("waits", "absent"))
		env.Settle()
		time.Sleep(time.Minute)
		if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
			t.Errorf("%d writes in a day, want none", n)
		}
	})
}

// TestReadOnly counts the attempts of a virtual hour in which the server refuses all writes.
func TestReadOnly(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, names...)
		env.Create(template("gpu"), pod("p", "gpu"))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, time.Hour); n < 2 || n > 20 {
			t.Errorf("%d attempts in an hour, want a few", n)
		}
	})
}
