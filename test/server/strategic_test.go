package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestLongStrategicPatch sends a strategic merge patch whose lists take a time to merge that grows
// with the square of their length.
func TestLongStrategicPatch(t *testing.T) {
	server := runWith(t, kapok.Options{Accounts: kapok.AccountOptions{None: true}})
	pods := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	created, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(n int) error {
		var containers []map[string]string
		for i := range n {
			containers = append(containers, map[string]string{"name": fmt.Sprint("c", i)})
		}
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": containers}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		return err
	}
	if err := patch(100); !apierrors.IsInvalid(err) { // containers cannot be added
		t.Errorf("a patch of 100 containers: %v", err)
	}
	if err := patch(4000); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("a patch of 4,000 containers: %.300v", err)
	}
	if now, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || now.ResourceVersion != created.ResourceVersion {
		t.Errorf("the pod has changed: %v", err)
	}
}
