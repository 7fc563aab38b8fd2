package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}
}

// Every verb of a handle, by a Go type.
func TestHandle(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{FieldOwner: "test"})
	all := client.For[*appsv1.Deployment](c)
	h := all.In("default")

	d := deployment("web", 1)
	d.Namespace = ""
	if err := h.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	if d.Namespace != "default" || d.UID == "" {
		t.Errorf("created %s/%s, uid %q", d.Namespace, d.Name, d.UID)
	}
	got, err := h.Get(ctx, client.Key("", "web"))
	if err != nil {
		t.Fatal(err)
	}
	got.Spec.Replicas = new(int32(2))
	if err := h.Update(ctx, got); err != nil {
		t.Fatal(err)
	}
	if err := h.Update(ctx, d); !apierrors.IsConflict(err) {
		t.Errorf("update of an old revision: %v", err)
	}
	before := got.DeepCopy()
	got.Spec.Template.Spec.Containers = append(got.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "busybox"})
	if err := h.Patch(ctx, got, client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Spec.Template.Spec.Containers); n != 2 {
		t.Errorf("%d containers after the patch", n)
	}
	if scale, err := h.Scale(ctx, client.Key("", "web")); err != nil || scale.Spec.Replicas != 2 {
		t.Errorf("scale %+v, %v", scale, err)
	}
	if scale, err := h.SetScale(ctx, client.Key("", "web"), 5); err != nil || scale.Spec.Replicas != 5 {
		t.Errorf("scaled %+v, %v", scale, err)
	}
	if got, err = all.Get(ctx, client.Key("default", "web")); err != nil || *got.Spec.Replicas != 5 {
		t.Fatalf("scaled: %v, %v", got, err)
	}
	got.Status.Replicas = 5
	if err := h.Status().Update(ctx, got); err != nil || got.Status.Replicas != 5 {
		t.Errorf("status %+v, %v", got.Status, err)
	}
	before = got.DeepCopy()
	got.Status.ReadyReplicas = 4
	got.Spec.Paused = true
	if err := h.Status().Patch(ctx, got, client.MergeFrom(before)); err != nil || got.Status.ReadyReplicas != 4 || got.Spec.Paused {
		t.Errorf("status %+v, paused %v, %v", got.Status, got.Spec.Paused, err)
	}
	applied := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"a": "b"}}}
	applied.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Odd", Status: "True"}}
	if err := h.Apply(ctx, applied, client.FieldOwner("applier")); err != nil {
		t.Fatal(err)
	}
	if applied.Annotations["a"] != "b" || *applied.Spec.Replicas != 5 || len(applied.Status.Conditions) != 0 {
		t.Errorf("applied: %+v", applied)
	}
	applied.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Odd", Status: "True"}}
	if err := h.Status().Apply(ctx, applied, client.FieldOwner("applier"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if len(applied.Status.Conditions) != 1 {
		t.Errorf("conditions %v", applied.Status.Conditions)
	}
	if err := all.Create(ctx, deployment("other", 1)); err != nil {
		t.Fatal(err)
	}
	list, err := h.List(ctx, client.MatchingFields{"metadata.name": "web"})
	if err != nil || len(list) != 1 || list[0].Name != "web" {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := h.Delete(ctx, client.Key("", "web"), client.Preconditions{UID: new(d.UID)}); err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteAll(ctx); err != nil {
		t.Fatal(err)
	}
	if list, err := all.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}

	// A handle of a namespace leaves others alone.
	elsewhere := deployment("web", 1)
	elsewhere.Namespace = "kube-system"
	for what, err := range map[string]error{
		"create":     h.Create(ctx, elsewhere),
		"list":       second(h.List(ctx, client.InNamespace("kube-system"))),
		"delete all": h.DeleteAll(ctx, client.InNamespace("kube-system")),
		"get":        second(h.Get(ctx, client.Key("kube-system", "web"))),
		"nil":        h.Create(ctx, nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Subresources that are posted: their answers are objects, or say no more than that all went well.
func TestPostedSubresources(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{})
	pods := client.For[*corev1.Pod](c).In("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}}
	if err := pods.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if err := pods.SubResource("binding").Create(ctx, client.Key("", "p"), binding); err != nil {
		t.Fatal(err)
	}
	if binding.Target.Name != "n" {
		t.Errorf("binding: %+v", binding)
	}
	if pod, err := pods.Get(ctx, client.Key("", "p")); err != nil || pod.Spec.NodeName != "n" {
		t.Errorf("bound to %q, %v", pod.Spec.NodeName, err)
	}
	if err := pods.SubResource("eviction").Create(ctx, client.Key("", "p"), &policyv1.Eviction{}); err != nil {
		t.Fatal(err)
	}
}

// By its resource, a kind is read and written without a Go type; or its metadata alone.
func TestDynamic(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{})
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	h := client.Dynamic(c, gvr).In("default")
	for i := range 3 {
		u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"i": fmt.Sprint(i)}}}
		u.SetName(fmt.Sprintf("c%d", i))
		if err := h.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.List(ctx)
	if err != nil || len(list) != 3 || list[0].GetKind() != "ConfigMap" || list[0].GetAPIVersion() != "v1" {
		t.Fatalf("list: %v, %v", list, err)
	}
	m := client.MetadataFor(c, gvr).In("default")
	metas, err := m.List(ctx)
	if err != nil || len(metas) != 3 || metas[0].Kind != "ConfigMap" || metas[0].APIVersion != "v1" || metas[0].Name != "c0" {
		t.Fatalf("metadata: %v, %v", metas, err)
	}
	if err := m.Patch(ctx, metas[0], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	if metas[0].Labels["a"] != "b" {
		t.Errorf("patched: %v", metas[0])
	}
	if err := m.Update(ctx, metas[0]); err == nil {
		t.Error("metadata alone was updated")
	}
	if err := m.DeleteAll(ctx, client.MatchingLabels{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if list, err = h.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("left: %v, %v", list, err)
	}
	if _, err := client.Dynamic(c, corev1.SchemeGroupVersion.WithResource("gadgets")).List(ctx); err == nil {
		t.Error("there are gadgets")
	}
}

// All reads page by page, and goes on when the server has forgotten the state of the first page.
func TestAll(t *testing.T) {
	ctx := t.Context()
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := client.For[*corev1.ConfigMap](c).In("default")
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("c%02d", i)
		if err := h.Create(ctx, configMap(name)); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	for _, compact := range []bool{false, true} {
		var names []string
		for cm, err := range h.All(ctx, client.Limit(10)) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, cm.Name)
			if compact && len(names) == 5 {
				if err := h.Create(ctx, configMap("d")); err != nil {
					t.Fatal(err)
				}
				if err := server.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				want = append(want, "d")
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("compacted %v: %v, want %v", compact, names, want)
		}
	}
	for range h.All(ctx) {
		break
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range h.All(canceled) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	}
}

// A watch by a handle tells what is there, then what changes, and goes on when the server ends it.
func TestHandleWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newClient(t, client.Options{})
		h := client.For[*corev1.ConfigMap](c).In("default")
		if err := h.Create(ctx, configMap("a")); err != nil {
			t.Fatal(err)
		}
		var got []string
		n := 0
		for event, err := range h.Watch(ctx, client.MatchingFields{"metadata.name": "a"}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(event.Type, " ", event.Object.Name, " ", event.Object.Data))
			n++
			switch n {
			case 1, 3:
				time.Sleep(2 * time.Hour) // the server ends watches within the hour
				cm := configMap("a", "n", fmt.Sprint(n))
				if err := h.Update(ctx, cm); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := h.Update(ctx, configMap("a")); err != nil {
					t.Fatal(err)
				}
			case 4:
				if err := h.Delete(ctx, client.Key("", "a")); err != nil {
					t.Fatal(err)
				}
			case 5:
				cancel()
			}
		}
		want := []string{"ADDED a map[]", "MODIFIED a map[n:1]", "MODIFIED a map[]", "MODIFIED a map[n:3]", "DELETED a map[n:3]"}
		if !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

// Watch of a client, in all forms.
func TestWatch(t *testing.T) {
	ctx := t.Context()
	c, err := client.NewWithWatch(startServer(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMapList")
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(kind)
	m := &metav1.PartialObjectMetadataList{}
	m.SetGroupVersionKind(kind)
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, u, m} {
		w, err := c.Watch(ctx, list, client.InNamespace("default"))
		if err != nil {
			t.Fatal(err)
		}
		cm := configMap("w")
		if err := c.Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		event := <-w.ResultChan()
		obj, ok := event.Object.(client.Object)
		if event.Type != watch.Added || !ok || obj.GetUID() != cm.UID {
			t.Errorf("%T: %v %v", list, event.Type, event.Object)
		}
		if _, ok := list.(*corev1.ConfigMapList); !ok && obj.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
			t.Errorf("%T: kind %v", list, obj.GetObjectKind().GroupVersionKind())
		}
		if err := c.Delete(ctx, cm); err != nil {
			t.Fatal(err)
		}
		if event = <-w.ResultChan(); event.Type != watch.Deleted {
			t.Errorf("%T: %v", list, event.Type)
		}
		w.Stop()
		for range w.ResultChan() {
		}
	}
	if _, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.MatchingLabels{"no label": ""}); err == nil {
		t.Error("a watch with an invalid label returned no error")
	}
}
