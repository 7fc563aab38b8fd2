package scheme_test

import (
	"testing"

	"github.com/kapok-dev/kapok/client/scheme"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBuilderRegistersTypesOfSeveralVersions(t *testing.T) {
	one, two := schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v2"}
	first := (&scheme.Builder{GroupVersion: one}).Register(&corev1.Pod{}).Register(&corev1.PodList{})
	both, err := (&scheme.Builder{GroupVersion: two}).Register(&corev1.Pod{}, &corev1.PodList{}).RegisterAll(first).Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, gvk := range []schema.GroupVersionKind{one.WithKind("Pod"), one.WithKind("PodList"), two.WithKind("Pod"), two.WithKind("PodList"),
		one.WithKind("ListOptions"), two.WithKind("WatchEvent")} {
		if !both.Recognizes(gvk) {
			t.Errorf("%v is not registered", gvk)
		}
	}
}
