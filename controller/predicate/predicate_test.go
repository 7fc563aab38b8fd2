package predicate_test

import (
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPredicates(t *testing.T) {
	before := metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Generation: 1, Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}}
	changed := func(change func(*metav1.ObjectMeta)) client.Object {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		change(after)
		return &corev1.Pod{ObjectMeta: *after}
	}
	old := &corev1.Pod{ObjectMeta: before}
	objects := map[string]client.Object{
		"resync":      old,
		"status":      changed(func(*metav1.ObjectMeta) {}),
		"generation":  changed(func(m *metav1.ObjectMeta) { m.Generation++ }),
		"labels":      changed(func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"l": "2"} }),
		"annotations": changed(func(m *metav1.ObjectMeta) { m.Annotations = nil }),
	}
	selected, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"l": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	generation, labels := predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}
	for _, tc := range []struct {
		name         string
		p            predicate.Predicate
		pass         []string // updates
		others       bool     // other events
		metadataOnly bool
	}{
		{"everything", predicate.Funcs{}, []string{"resync", "status", "generation", "labels", "annotations"}, true, true},
		{"nothing", never, nil, false, false},
		{"changes", predicate.ResourceVersionChangedPredicate{}, []string{"status", "generation", "labels", "annotations"}, true, true},
		{"generation", generation, []string{"generation"}, true, true},
		{"labels", labels, []string{"labels"}, true, true},
		{"annotations", predicate.AnnotationChangedPredicate{}, []string{"annotations"}, true, true},
		{"or", predicate.Or(generation, labels), []string{"generation", "labels"}, true, true},
		{"and", predicate.And(generation, labels), nil, true, true},
		{"not", predicate.Not(generation), []string{"resync", "status", "labels", "annotations"}, false, true},
		{"and of none", predicate.And[client.Object](), []string{"resync", "status", "generation", "labels", "annotations"}, true, true},
		{"or of none", predicate.Or[client.Object](), nil, false, true},
		{"or with a function", predicate.Or(generation, never), []string{"generation"}, true, false},
		{"not of a function", predicate.Not(never), []string{"resync", "status", "generation", "labels", "annotations"}, true, false},
		{"selected", selected, []string{"resync", "status", "generation", "annotations"}, true, true},
		{"generation with a function", predicate.GenerationChangedPredicate{TypedFuncs: never}, []string{"generation"}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pass := map[string]bool{}
			for _, name := range tc.pass {
				pass[name] = true
			}
			for name, obj := range objects {
				if got := tc.p.Update(handler.UpdateEvent{ObjectOld: old, ObjectNew: obj}); got != pass[name] {
					t.Errorf("update of %s: %v", name, got)
				}
			}
			for name, got := range map[string]bool{
				"create":  tc.p.Create(handler.CreateEvent{Object: old}),
				"delete":  tc.p.Delete(handler.DeleteEvent{Object: old}),
				"generic": tc.p.Generic(handler.GenericEvent{Object: old}),
			} {
				if got != tc.others {
					t.Errorf("%s: %v", name, got)
				}
			}
			m, ok := tc.p.(interface{ MetadataOnly() bool })
			if got := ok && m.MetadataOnly(); got != tc.metadataOnly {
				t.Errorf("metadata is enough: %v", got)
			}
		})
	}
	if _, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"": "!"}}); err == nil {
		t.Error("an invalid selector was accepted")
	}
}
