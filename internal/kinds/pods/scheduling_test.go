package pods_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/pods"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestSystemPriorityClasses(t *testing.T) {
	s := kindtest.NewServer(t)
	for _, tree := range pods.PriorityClassesAtStart() {
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		name := kind.Text(tree, "metadata", "name")
		class := s.Tree("priorityclasses", s.Must(s.Create("priorityclasses", string(data))))
		if kind.Get(class, "metadata", "generation") != int64(1) || kind.Text(class, "preemptionPolicy") != "PreemptLowerPriority" {
			t.Errorf("created: %v", class)
		}
		_, err = s.Store.Delete(t.Context(), s.Request("priorityclasses", name, ""), &metav1.DeleteOptions{})
		if err == nil || !strings.Contains(err.Error(), "this is a system priority class and cannot be deleted") {
			t.Errorf("%s is deleted: %v", name, err)
		}
	}
	if _, err := s.Create("priorityclasses", `{metadata: {name: system-mine}, value: 1}`); err == nil || !strings.Contains(err.Error(), "system-mine is not a known system priority class") {
		t.Errorf("a third system class: %v", err)
	}
}

func TestOneDefaultPriority(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("priorityclasses", `{metadata: {name: a}, value: 1, globalDefault: true}`))
	const refused = `priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass a is already marked as default. Only one default can exist`
	if _, err := s.Create("priorityclasses", `{metadata: {name: b}, value: 2, globalDefault: true}`); err == nil || err.Error() != refused {
		t.Errorf("a second default: %v", err)
	}
	s.Must(s.Create("priorityclasses", `{metadata: {name: b}, value: 2}`))
	if _, err := s.Patch("priorityclasses", "b", "", types.MergePatchType, `{globalDefault: true}`); err == nil || err.Error() != refused {
		t.Errorf("a second default: %v", err)
	}
	s.Must(s.Patch("priorityclasses", "a", "", types.MergePatchType, `{description: d}`))
	s.Must(s.Patch("priorityclasses", "a", "", types.MergePatchType, `{globalDefault: false}`))
	s.Must(s.Patch("priorityclasses", "b", "", types.MergePatchType, `{globalDefault: true}`))
}
