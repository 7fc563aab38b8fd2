package first

import (
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUpdate(t *testing.T) {
	env := kapoktest.Start(t)
	web := deployment("web")
	env.Create(web)
	env.Update(web, func() { web.Spec.Paused = true })
	env.UpdateStatus(web, func() { web.Status.ObservedGeneration = web.Generation })
	env.Get(web)
	if !web.Spec.Paused || web.Status.ObservedGeneration != web.Generation {
		t.Errorf("paused is %t, and generation %d of %d is observed", web.Spec.Paused, web.Status.ObservedGeneration, web.Generation)
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	return d
}
