//go:build linux || darwin

package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestExceeded checks the reasons of an eviction in the words of a kubelet.
func TestExceeded(t *testing.T) {
	limited := func(name, limit string) corev1.Container {
		c := corev1.Container{Name: name}
		if limit != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(limit)}
		}
		return c
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{limited("a", "10Mi"), limited("b", ""), limited("c", "10Mi")},
		InitContainers: []corev1.Container{limited("init", "1Ki")},
		Volumes: []corev1.Volume{
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Mi"))}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	const mi = 1 << 20
	for _, test := range []struct {
		volumes, containers map[string]int64
		want                string
	}{
		{nil, nil, ""},
		{map[string]int64{"cache": mi, "data": 5 * mi}, map[string]int64{"a": 10 * mi}, ""},
		{map[string]int64{"cache": mi + 1}, nil, `Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `},
		{map[string]int64{"data": 15 * mi}, map[string]int64{"b": 6 * mi}, "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "},
		{nil, map[string]int64{"c": 11 * mi}, `Container c exceeded its local ephemeral storage limit "10Mi". `},
		{nil, map[string]int64{"init": mi}, ""},
	} {
		if got := exceeded(pod, test.volumes, test.containers); got != test.want {
			t.Errorf("%v, %v: got %q, want %q", test.volumes, test.containers, got, test.want)
		}
	}
	if !limitsStorage(pod) || limitsStorage(&corev1.Pod{}) {
		t.Error("limitsStorage is wrong")
	}
	pod.Spec.Priority = new(int32(criticalPriority))
	if limitsStorage(pod) {
		t.Error("a critical pod may be evicted")
	}
}

// TestEvicted ends a pod that is evicted.
func TestEvicted(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways})
	w.run(time.Second)
	w.evicted = "too much"
	w.run(time.Second)
	w.check(t, "0s start c 0", "1s stop c 1s")
	if s := w.pod.Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || s.Message != "too much" || !w.out.ended {
		t.Errorf("the status is %s, %s, %q", s.Phase, s.Reason, s.Message)
	}
}

func TestSizeOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if size := sizeOf(t.Context(), dir); size < 1<<20 || size > 2<<20 {
		t.Errorf("got %d bytes, want a bit more than 1 MiB", size)
	}
	if size := sizeOf(t.Context(), filepath.Join(dir, "absent")); size != 0 {
		t.Errorf("a directory that does not exist has %d bytes", size)
	}
}
