package quota_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// inBubble runs a test with a server in virtual time, where synctest.Wait waits until the server is
// idle.
func inBubble(t *testing.T, options kapok.Options, test func(core corev1client.CoreV1Interface)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		test(kubernetes.NewForConfigOrDie(server.Config()).CoreV1())
	})
}

func hard(pods string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// TestSettled checks that the status of a quota shows the use before the first write that counts,
// and after a user has changed it.
func TestSettled(t *testing.T) {
	inBubble(t, kapok.Options{}, func(core corev1client.CoreV1Interface) {
		ctx := context.Background()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		shows := func(most, used string) {
			t.Helper()
			synctest.Wait()
			q, err := core.ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
			must(err)
			if got := q.Status; got.Hard.Pods().String() != most || got.Used.Pods().String() != used {
				t.Errorf("the quota shows %s of %s, want %s of %s", got.Used.Pods(), got.Hard.Pods(), used, most)
			}
		}
		patch := func(body string, subresources ...string) {
			t.Helper()
			_, err := core.ResourceQuotas("default").Patch(ctx, "q", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
			must(err)
		}
		_, err := core.Pods("default").Create(ctx, pod("a"), metav1.CreateOptions{})
		must(err)
		_, err = core.ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard("2")},
		}, metav1.CreateOptions{})
		must(err)
		shows("2", "1")
		patch(`{"spec":{"hard":{"pods":"5"}}}`)
		shows("5", "1")
		patch(`{"status":{"hard":{"pods":"9"},"used":{"pods":"0"}}}`, "status")
		shows("5", "1")
		_, err = core.Pods("default").Create(ctx, pod("b"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(err)
		shows("5", "1")
		zero := int64(0)
		must(core.Pods("default").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
		shows("5", "0")
	})
}

// TestNotEnforced checks that without the plugin no request is rejected, and that the status shows
// the use nevertheless.
func TestNotEnforced(t *testing.T) {
	inBubble(t, kapok.Options{Admission: kapok.AdmissionOptions{Disable: []string{"ResourceQuota"}}}, func(core corev1client.CoreV1Interface) {
		ctx := context.Background()
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard("0")}}
		if _, err := core.ResourceQuotas("default").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := core.Pods("default").Create(ctx, pod("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := core.ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status.Used.Pods().String() != "1" {
			t.Errorf("the quota shows %v", got.Status)
		}
	})
}
