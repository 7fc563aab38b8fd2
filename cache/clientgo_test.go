package cache_test

import (
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/cache"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// A handler of client-go gets the objects of all events, by its functions or those with details.
func TestHandlerOfClientGo(t *testing.T) {
	var calls []string
	note := func(what string, objects ...any) {
		for _, o := range objects {
			what += " " + o.(*corev1.Pod).Name
		}
		calls = append(calls, what)
	}
	for _, h := range []toolscache.ResourceEventHandler{
		toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { note("add", obj) },
			UpdateFunc: func(old, obj any) { note("update", old, obj) },
			DeleteFunc: func(obj any) { note("delete", obj) },
		},
		toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: func(obj any, initial bool) {
			if initial {
				note("initial", obj)
			}
		}},
	} {
		to := cache.HandlerOf(h)
		a, b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		to.OnAdd(a, true)
		to.OnUpdate(a, b)
		to.OnDelete(b, true)
	}
	if want := []string{"add a", "update a b", "delete b", "initial a"}; !slices.Equal(calls, want) {
		t.Errorf("%q, want %q", calls, want)
	}
}
