package fake_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/client/interceptor"
	"github.com/kapok-dev/kapok/client/scheme"
	"github.com/kapok-dev/kapok/kapoktest/fake"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A Widget is a kind without a definition.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Part `json:"spec,omitzero"`
	Status            Part `json:"status,omitzero"`
}

type Part struct {
	Size int `json:"size,omitempty"`
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() k8sruntime.Object {
	to := *w
	w.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	return &to
}

func (l *WidgetList) DeepCopyObject() k8sruntime.Object {
	to := *l
	to.Items = nil
	for i := range l.Items {
		to.Items = append(to.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return &to
}

func widgets(t *testing.T) *k8sruntime.Scheme {
	t.Helper()
	s, err := (&scheme.Builder{GroupVersion: schema.GroupVersion{Group: "shop.example.com", Version: "v1"}}).Register(&Widget{}, &WidgetList{}).Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := clientscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func widget(namespace, name string, size int) *Widget {
	return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: Part{size}}
}

func TestInitialObjectsHaveStatusOwnersAndDeletions(t *testing.T) {
	ctx := t.Context()
	one := widget("shop", "one", 1)
	one.UID, one.ResourceVersion, one.Status.Size = "old", "999", 7
	box := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "box", Finalizers: []string{"example.com/f"}, DeletionTimestamp: &metav1.Time{Time: time.Now()},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "shop.example.com/v1", Kind: "Widget", Name: "one", UID: "old"}}}}
	pods := &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}}
	c := fake.NewClientBuilder().WithTest(t).WithScheme(widgets(t)).WithObjects(box, one).WithLists(pods).WithStatusSubresource(&Widget{}).Build()
	if one.UID != "old" {
		t.Error("the object was not copied")
	}

	var w Widget
	if err := c.Get(ctx, client.ObjectKeyFromObject(one), &w); err != nil || w.Spec.Size != 1 || w.Status.Size != 7 || w.UID == "old" {
		t.Errorf("%+v %v", w, err)
	}
	var b corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKeyFromObject(box), &b); err != nil || b.DeletionTimestamp == nil || b.OwnerReferences[0].UID != w.UID {
		t.Errorf("%+v %v", b, err)
	}
	var p corev1.Pod
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "p"}, &p); err != nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("%+v %v", p.Status, err)
	}

	// w checks that a status subresource has its own updates.
	w.Spec.Size, w.Status.Size = 2, 8
	stale := w.DeepCopyObject().(*Widget)
	if err := c.Update(ctx, &w); err != nil || w.Spec.Size != 2 || w.Status.Size != 7 {
		t.Errorf("%+v %v", w, err)
	}
	w.Spec.Size, w.Status.Size = 3, 9
	if err := c.Status().Update(ctx, &w); err != nil || w.Spec.Size != 2 || w.Status.Size != 9 {
		t.Errorf("%+v %v", w, err)
	}
	if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Error(err)
	}
	if err := c.Create(ctx, widget("elsewhere", "two", 2)); err != nil {
		t.Error("the namespace is not created:", err)
	}
}

func TestWithoutStatusSubresourceAnUpdateWritesTheStatus(t *testing.T) {
	one := widget("", "one", 1) // it has no namespace, and so its kind is cluster-scoped
	c := fake.NewClientBuilder().WithTest(t).WithScheme(widgets(t)).WithObjects(one).Build()
	var w Widget
	if err := c.Get(t.Context(), client.ObjectKey{Name: "one"}, &w); err != nil {
		t.Fatal(err)
	}
	w.Status.Size = 5
	if err := c.Update(t.Context(), &w); err != nil || w.Status.Size != 5 {
		t.Errorf("%+v %v", w, err)
	}
}

func TestIndicesAndInterceptors(t *testing.T) {
	broken := errors.New("broken")
	c := fake.NewClientBuilder().WithTest(t).WithScheme(widgets(t)).
		WithObjects(widget("a", "one", 1), widget("a", "two", 2), widget("b", "three", 2)).
		WithIndex(&Widget{}, "size", func(o client.Object) []string { return []string{strings.Repeat("i", o.(*Widget).Spec.Size)} }).
		WithInterceptorFuncs(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return broken }}).
		Build()
	names := func(opts ...client.ListOption) (names string) {
		t.Helper()
		var list WidgetList
		if err := c.List(t.Context(), &list, opts...); err != nil {
			t.Fatal(err)
		}
		for _, w := range list.Items {
			names += w.Name + " "
		}
		return names
	}
	if got := names(client.MatchingFields{"size": "ii"}); got != "two three " {
		t.Error(got)
	}
	if got := names(client.MatchingFields{"size": "ii"}, client.InNamespace("b")); got != "three " {
		t.Error(got)
	}
	if got := names(client.MatchingFields{"metadata.name": "one"}); got != "one " {
		t.Error(got)
	}
	if err := c.Delete(t.Context(), widget("a", "one", 1)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestBuildRejectsInvalidObjects(t *testing.T) {
	for want, b := range map[string]*fake.ClientBuilder{
		"must have finalizers": fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}),
		"has two indices":      fake.NewClientBuilder().WithIndex(&corev1.Pod{}, "x", nameOf).WithIndex(&corev1.Pod{}, "x", nameOf),
		"and its owners form a cycle": fake.NewClientBuilder().WithObjects(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "x", OwnerReferences: []metav1.OwnerReference{{UID: "y"}}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "y", UID: "y", OwnerReferences: []metav1.OwnerReference{{UID: "x"}}}}),
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}()
			b.Build()
		}()
	}
}

func nameOf(o client.Object) []string { return []string{o.GetName()} }

// TestServerEndsWithTheClient checks that without WithTest the server ends after the client.
func TestServerEndsWithTheClient(t *testing.T) {
	before := runtime.NumGoroutine()
	if err := fake.NewFakeClient().Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Fatal(err)
	}
	for runtime.NumGoroutine() > before {
		if t.Context().Err() != nil {
			t.Fatal("the server still runs")
		}
		runtime.GC()
		runtime.Gosched()
	}
}

// TestServerOutlivesTheLastCall checks that the server serves a call during which the client
// becomes unreachable.
func TestServerOutlivesTheLastCall(t *testing.T) {
	stop := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	defer collector.Wait()
	defer close(stop)
	for range 30 {
		if err := fake.NewFakeClient().Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithTest(t).WithScheme(widgets(t)).WithObjects(widget("a", "one", 1)).Build()
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &Widget{}); err != nil {
			t.Error(err)
		}
	})
}
