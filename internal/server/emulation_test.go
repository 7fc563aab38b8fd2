package server

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// TestReleasesOfOneStore opens a data directory with one release after the other. What a feature
// has written stays, and objects get the defaults of the first release that has the feature.
func TestReleasesOfOneStore(t *testing.T) {
	dir := t.TempDir()
	in := func(release string, do func(sets func() map[string]*appsv1.StatefulSet, c *kubernetes.Clientset)) {
		t.Helper()
		s := start(t, Options{DataDir: dir, UnsafeNoFsync: true, EmulatedVersion: release})
		c, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		do(func() map[string]*appsv1.StatefulSet {
			list, err := c.AppsV1().StatefulSets("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]*appsv1.StatefulSet{}
			for i := range list.Items {
				found[list.Items[i].Name] = &list.Items[i]
			}
			return found
		}, c)
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	create := func(c *kubernetes.Clientset, name string, unavailable int32) {
		t.Helper()
		labels := map[string]string{"app": name}
		max := intstr.FromInt32(unavailable)
		_, err := c.AppsV1().StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.StatefulSetSpec{
				ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &max}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(set *appsv1.StatefulSet, unavailable string) {
		t.Helper()
		got := "none"
		if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
			got = r.MaxUnavailable.String()
		}
		if got != unavailable {
			t.Errorf("%s has maxUnavailable %s, want %s", set.Name, got, unavailable)
		}
	}
	label := func(c *kubernetes.Clientset, name string) {
		t.Helper()
		if _, err := c.AppsV1().StatefulSets("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	in("1.36", func(sets func() map[string]*appsv1.StatefulSet, c *kubernetes.Clientset) {
		create(c, "early", 3)
		want(sets()["early"], "none")
	})
	in("", func(sets func() map[string]*appsv1.StatefulSet, c *kubernetes.Clientset) {
		want(sets()["early"], "1")
		create(c, "late", 4)
		want(sets()["late"], "4")
	})
	in("1.36", func(sets func() map[string]*appsv1.StatefulSet, c *kubernetes.Clientset) {
		want(sets()["late"], "4")
		label(c, "late")
		want(sets()["late"], "4")
	})
	in("1.34", func(sets func() map[string]*appsv1.StatefulSet, c *kubernetes.Clientset) {
		want(sets()["late"], "4")
		if len(sets()) != 2 {
			t.Errorf("there are %d sets", len(sets()))
		}
	})
}
