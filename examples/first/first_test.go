package first

import (
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestColors(t *testing.T) {
	env := kapoktest.Start(t) // starts a server that stops when the test ends
	configMaps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps("default")

	colors := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors"}, Data: map[string]string{"sky": "blue"}}
	if _, err := configMaps.Create(t.Context(), colors, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := configMaps.Get(t.Context(), "colors", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Data["sky"] != "blue" {
		t.Errorf("the sky is %q", got.Data["sky"])
	}
}
