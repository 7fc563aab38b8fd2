package history

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// TestAfterCompaction checks that a search finds the oldest change, wherever the history was cut.
func TestAfterCompaction(t *testing.T) {
	for _, cut := range []int{0, 1, 5, 9} {
		t.Run(strconv.Itoa(cut), func(t *testing.T) {
			env := kapoktest.Start(t)
			configMaps := dynamic.NewForConfigOrDie(env.Config()).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}}
			o, err := configMaps.Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			versions := []string{o.GetResourceVersion()}
			for i := 1; i < 10; i++ {
				if i == cut {
					if err := env.Server().Compact(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				o.Object["data"] = map[string]any{"n": fmt.Sprint(i)}
				if o, err = configMaps.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				versions = append(versions, o.GetResourceVersion())
			}
			all, err := Of(t.Context(), configMaps, o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range all {
				got = append(got, r.Version)
			}
			if want := versions[max(0, cut-1):]; !slices.Equal(got, want) {
				t.Errorf("revisions %v, want %v", got, want)
			}
			if last := all[len(all)-1]; !slices.Equal(last.Paths, []string{"data.n"}) {
				t.Errorf("the last change is of %v", last.Paths)
			}
		})
	}
}
