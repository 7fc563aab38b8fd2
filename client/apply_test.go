package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// What is sent of an object that is applied: what its author can mean.
func TestApplied(t *testing.T) {
	cfg := startServer(t)
	w := tap(cfg)
	var sent []byte
	w.answer = func(r *http.Request) *http.Response {
		if r.Method != http.MethodPatch {
			return nil
		}
		sent, _ = io.ReadAll(r.Body)
		return answerJSON(409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
	}
	scheme := gadgetScheme(t)
	c, err := client.New(cfg, client.Options{Scheme: scheme, FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defineGadgets(t, c)
	now := metav1.NewTime(time.Unix(1e9, 0).UTC())
	name := metav1.ObjectMeta{Namespace: "default", Name: "a"}
	full := metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: now,
		DeletionTimestamp: &now, ManagedFields: []metav1.ManagedFieldsEntry{{}}, SelfLink: "/x", Labels: map[string]string{"a": "b"}}
	for _, test := range []struct {
		what   string
		obj    client.Object
		status bool
		want   string
	}{
		{"metadata that the server sets", &corev1.ConfigMap{ObjectMeta: full}, false,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","labels":{"a":"b"}}}`},
		{"structs that are zero, in lists", &corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 80}, {Port: 81, TargetPort: intstr.FromInt32(8081)}, {Port: 82, TargetPort: intstr.FromString("web")}}},
			Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}}}}, false,
			`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"a"},
			  "spec":{"ports":[{"port":80},{"port":81,"targetPort":8081},{"port":82,"targetPort":"web"}]}}`},
		{"zero values that are meant: by pointers, and empty structs behind them", &corev1.Pod{ObjectMeta: name, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Volumes:                       []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("0")}}},
				{Name: "d"}}}}, false,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a"},"spec":{"terminationGracePeriodSeconds":0,
			  "volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","resources":{"limits":{"cpu":"0"}}},{"name":"d"}]}}`},
		{"a custom kind", &gadget{ObjectMeta: name, Spec: gadgetSpec{Tags: []gadgetTag{{Key: "k"}, {When: now}}, Empty: &gadgetTag{}}}, false,
			`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"namespace":"default","name":"a"},
			  "spec":{"size":0,"tags":[{"key":"k"},{"when":"2001-09-09T01:46:40Z"}],"empty":{}}}`},
		{"a spec that is zero", &gadget{ObjectMeta: name, Status: gadgetStatus{Phase: "x"}}, false,
			`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"namespace":"default","name":"a"}}`},
		{"status", &gadget{ObjectMeta: full, Spec: gadgetSpec{Size: 3}, Status: gadgetStatus{Phase: "x"}}, true,
			`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"namespace":"default","name":"a"},"status":{"phase":"x"}}`},
		{"unstructured", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "status": "x", "immutable": false,
			"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "u"}}}, false,
			`{"apiVersion":"v1","kind":"ConfigMap","immutable":false,"metadata":{"namespace":"default","name":"a"}}`},
	} {
		before := test.obj.DeepCopyObject()
		apply := c.Apply
		if test.status {
			apply = c.Status().Apply
		}
		if err := apply(t.Context(), client.ApplyConfigurationFrom(test.obj)); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", test.what, err)
		}
		var got, want any
		if err := json.Unmarshal(sent, &got); err != nil {
			t.Errorf("%s: sent %s: %v", test.what, sent, err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: sent %s\n%s", test.what, sent, diff)
		}
		if diff := cmp.Diff(before, runtime.Object(test.obj)); diff != "" {
			t.Errorf("%s: the object has changed:\n%s", test.what, diff)
		}
	}
}

// Apply in all forms, and who owns what after that.
func TestApply(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{})
	ac := corev1ac.ConfigMap("a", "default").WithData(map[string]string{"x": "1"})
	if err := c.Apply(ctx, ac, client.FieldOwner("one")); err != nil {
		t.Fatal(err)
	}
	if ac.UID == nil || *ac.Kind != "ConfigMap" || ac.Data["x"] != "1" {
		t.Errorf("the answer: %+v", ac)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "namespace": "default"}, "data": map[string]any{"x": "2", "y": "2"}}}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("two")); !apierrors.IsConflict(err) {
		t.Errorf("another owner: %v", err)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("two"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if u.GetUID() != *ac.UID {
		t.Errorf("the answer: %v", u.Object)
	}
	cm := configMap("a", "y", "2")
	if err := c.Apply(ctx, client.ApplyConfigurationFrom(cm), client.FieldOwner("two")); err != nil {
		t.Fatal(err)
	}
	if cm.UID != *ac.UID || len(cm.Data) != 1 || cm.Kind != "" {
		t.Errorf("what two wants no more is gone: %v", cm)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFrom(configMap("a"))); err == nil {
		t.Error("no owner, no error")
	}
}

// Patches, and what they send.
func TestPatches(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x"}, {Name: "b", Image: "y"}}}}
		change(p)
		return p
	}
	old := pod(func(*corev1.Pod) {})
	image := pod(func(p *corev1.Pod) { p.Spec.Containers[1].Image = "z" })
	for _, test := range []struct {
		what  string
		patch client.Patch
		obj   client.Object
		want  string
	}{
		{"nothing", client.MergeFrom(old), old, `{}`},
		{"a list", client.MergeFrom(old), image, `{"spec":{"containers":[{"name":"a","image":"x","resources":{}},{"name":"b","image":"z","resources":{}}]}}`},
		{"a list, strategically", client.StrategicMergeFrom(old), image,
			`{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"b","image":"z"}]}}`},
		{"a removal", client.MergeFrom(old), pod(func(p *corev1.Pod) { p.Labels = nil }), `{"metadata":{"labels":null}}`},
		{"a lock", client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), pod(func(p *corev1.Pod) { p.Labels["a"] = "c"; p.ResourceVersion = "8" }),
			`{"metadata":{"labels":{"a":"c"},"resourceVersion":"7"}}`},
		{"a lock, strategically", client.StrategicMergeFrom(old, client.MergeFromOptions{OptimisticLock: true}), old, `{"metadata":{"resourceVersion":"7"}}`},
		{"raw", client.RawPatch("application/json-patch+json", []byte(`[]`)), old, `[]`},
		{"the whole", client.Merge, configMap("a"), `{"metadata":{"name":"a","namespace":"default"}}`},
	} {
		data, err := test.patch.Data(test.obj)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		var got, want any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s\n%s", test.what, data, diff)
		}
	}
	if old.ResourceVersion != "7" {
		t.Errorf("the old object has changed: %v", old)
	}
}
