package client_test

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startServer starts a server for the test, and returns how to reach it.
func startServer(t testing.TB) *rest.Config {
	t.Helper()
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server.Config()
}

// newClient returns a client of a server of its own.
func newClient(t testing.TB, opts client.Options) client.Client {
	t.Helper()
	c, err := client.New(startServer(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

// The same object, read and written as a Go type, as a map, and as metadata alone.
func TestForms(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{})

	cm := configMap("a", "color", "red")
	if err := c.Create(ctx, cm); err != nil {
		t.Fatal(err)
	}
	if cm.UID == "" || cm.ResourceVersion == "" || cm.Kind != "" {
		t.Errorf("created: uid %q, resourceVersion %q, kind %q", cm.UID, cm.ResourceVersion, cm.Kind)
	}
	got := &corev1.ConfigMap{Data: map[string]string{"stale": "field"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(cm), got); err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != 1 || got.Data["color"] != "red" {
		t.Errorf("got data %v", got.Data)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := c.Get(ctx, client.ObjectKeyFromObject(cm), u); err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(u.Object, "data", "color"); color != "red" || u.GetKind() != "ConfigMap" {
		t.Errorf("unstructured: %v", u.Object)
	}
	if err := unstructured.SetNestedField(u.Object, "blue", "data", "color"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(ctx, u); err != nil {
		t.Fatal(err)
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := c.Get(ctx, client.ObjectKeyFromObject(cm), m); err != nil {
		t.Fatal(err)
	}
	if m.ResourceVersion != u.GetResourceVersion() || m.Kind != "ConfigMap" || m.APIVersion != "v1" {
		t.Errorf("metadata: %+v", m)
	}
	list := &corev1.ConfigMapList{}
	if err := c.List(ctx, list, client.InNamespace("default"), client.MatchingFields{"metadata.name": "a"}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Data["color"] != "blue" {
		t.Errorf("list: %v", list.Items)
	}
	if err := c.Delete(ctx, m); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(cm), got)); err != nil {
		t.Fatal(err)
	}
}
