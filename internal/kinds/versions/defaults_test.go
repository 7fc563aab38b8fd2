package versions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// test/convert compares the defaults with those of Kubernetes. These tests check what else [Fill]
// promises.

func TestFillTwice(t *testing.T) {
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "a"}}, Volumes: []corev1.Volume{{Name: "v"}}},
	}
	for _, obj := range []runtime.Object{
		&extensionsv1beta1.Deployment{Spec: extensionsv1beta1.DeploymentSpec{Template: pods}},
		&extensionsv1beta1.DaemonSetList{Items: []extensionsv1beta1.DaemonSet{{Spec: extensionsv1beta1.DaemonSetSpec{Template: pods}}}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: pods, VolumeClaimTemplates: make([]corev1.PersistentVolumeClaim, 1)}},
		&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{}}},
		&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityClientIP, Ports: []corev1.ServicePort{{Port: 1}}}},
		&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer}}}},
	} {
		before := obj.DeepCopyObject()
		Fill(obj)
		once := obj.DeepCopyObject()
		if cmp.Equal(before, once) {
			t.Errorf("%T: no defaults are applied", obj)
		}
		Fill(obj)
		if diff := cmp.Diff(once, obj); diff != "" {
			t.Errorf("%T: the second time changes it:\n%s", obj, diff)
		}
	}
}

// Defaulted labels are copies.
func TestFillSharesNothing(t *testing.T) {
	d := &extensionsv1beta1.Deployment{}
	d.Spec.Template.Labels = map[string]string{"a": "b"}
	Fill(d)
	d.Labels["a"], d.Spec.Selector.MatchLabels["a"] = "changed", "changed, too"
	if got := d.Spec.Template.Labels["a"]; got != "b" {
		t.Errorf("the template's label is %q", got)
	}
}

func TestFillTypesWithin(t *testing.T) {
	type tree struct {
		Ports []corev1.EndpointPort
		Below *tree
	}
	obj := &tree{Below: &tree{Ports: make([]corev1.EndpointPort, 1)}}
	Fill(obj)
	if got := obj.Below.Ports[0].Protocol; got != corev1.ProtocolTCP {
		t.Errorf("protocol is %q", got)
	}
	type lonely struct{ Next *lonely }
	Fill(&lonely{Next: &lonely{}}) // terminates
}
