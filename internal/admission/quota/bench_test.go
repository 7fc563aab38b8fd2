package quota_test

import (
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// BenchmarkCreatePod creates pods through the API, in memory, with and without quotas that count
// them.
func BenchmarkCreatePod(b *testing.B) {
	for _, quotas := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("quotas=%d", quotas), func(b *testing.B) {
			server, err := kapok.Start(b.Context(), kapok.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer server.Stop()
			config := server.Config()
			config.QPS = -1
			core := kubernetes.NewForConfigOrDie(config).CoreV1()
			for i := range quotas {
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("q", i)}, Spec: corev1.ResourceQuotaSpec{
					Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100M"), corev1.ResourceRequestsCPU: resource.MustParse("100M")},
				}}
				if _, err := core.ResourceQuotas("default").Create(b.Context(), quota, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "i",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				}}}}
				if _, err := core.Pods("default").Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
