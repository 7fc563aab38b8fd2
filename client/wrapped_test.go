package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/client/interceptor"
	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
)

func aConfigMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"a": "1"}}
}

func managers(obj client.Object) (names []string) {
	for _, m := range obj.GetManagedFields() {
		names = append(names, m.Manager)
	}
	return names
}

func TestWithFieldOwnerNamesTheManagerOfWritesThatNameNone(t *testing.T) {
	env, ctx := kapoktest.Start(t), t.Context()
	c := client.WithFieldOwner(env.Client(), "owner")
	one := aConfigMap("default", "one")
	if err := c.Create(ctx, one); err != nil || !slices.Equal(managers(one), []string{"owner"}) {
		t.Error(managers(one), err)
	}
	if err := c.Apply(ctx, corev1apply.ConfigMap("two", "default").WithData(map[string]string{"b": "2"})); err != nil {
		t.Error(err)
	}
	two := aConfigMap("default", "two")
	if err := c.Get(ctx, client.ObjectKeyFromObject(two), two); err != nil || !slices.Equal(managers(two), []string{"owner"}) {
		t.Error(managers(two), err)
	}
	three := aConfigMap("default", "three")
	if err := c.Create(ctx, three, client.FieldOwner("other")); err != nil || !slices.Equal(managers(three), []string{"other"}) {
		t.Error(managers(three), err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if err := c.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if err := c.Status().Update(ctx, pod); err != nil || !slices.Equal(managers(pod), []string{"owner", "owner"}) {
		t.Error(managers(pod), err)
	}
}

func TestWithFieldValidationRefusesUnknownFields(t *testing.T) {
	env, ctx := kapoktest.Start(t), t.Context()
	obj := aConfigMap("default", "one")
	if err := env.Client().Create(ctx, obj); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"nonsense":1}`))
	c := client.WithFieldValidation(env.Client(), metav1.FieldValidationStrict)
	if err := c.Patch(ctx, obj, patch); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
	if err := c.Patch(ctx, obj, patch, client.FieldValidation(metav1.FieldValidationIgnore)); err != nil {
		t.Error(err)
	}
}

func TestDryRunClientChangesNothing(t *testing.T) {
	env, ctx := kapoktest.Start(t), t.Context()
	there := aConfigMap("default", "there")
	if err := env.Client().Create(ctx, there); err != nil {
		t.Fatal(err)
	}
	c := client.NewDryRunClient(env.Client())
	before := there.DeepCopy()
	there.Data = nil
	for verb, err := range map[string]error{
		"create":        c.Create(ctx, aConfigMap("default", "new")),
		"update":        c.Update(ctx, there.DeepCopy()),
		"patch":         c.Patch(ctx, there.DeepCopy(), client.MergeFrom(before)),
		"apply":         c.Apply(ctx, corev1apply.ConfigMap("new", "default"), client.FieldOwner("x")),
		"delete":        c.Delete(ctx, there.DeepCopy()),
		"delete all of": c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default")),
	} {
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	var all corev1.ConfigMapList
	if err := env.Client().List(ctx, &all, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Items {
		if m.Name == "new" || m.Name == "there" && m.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s has changed", m.Name)
		}
	}
	if !slices.ContainsFunc(all.Items, func(m corev1.ConfigMap) bool { return m.Name == "there" }) {
		t.Error("it was deleted")
	}
}

func TestNamespacedClientStaysInItsNamespace(t *testing.T) {
	env, ctx := kapoktest.Start(t), t.Context()
	env.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	c := client.NewNamespacedClient(env.Client(), "mine")
	one := aConfigMap("", "one")
	if err := c.Create(ctx, one); err != nil || one.Namespace != "mine" {
		t.Fatal(one.Namespace, err)
	}
	if err := c.Apply(ctx, corev1apply.ConfigMap("two", "").WithData(map[string]string{"b": "2"}), client.FieldOwner("x")); err != nil {
		t.Error(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "two"}, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
	env.Create(aConfigMap("other", "three"))
	var all corev1.ConfigMapList
	if err := c.List(ctx, &all); err != nil || slices.ContainsFunc(all.Items, func(m corev1.ConfigMap) bool { return m.Namespace != "mine" }) || len(all.Items) < 2 {
		t.Error(all.Items, err)
	}
	other := aConfigMap("other", "three")
	for verb, err := range map[string]error{
		"get":           c.Get(ctx, client.ObjectKeyFromObject(other), &corev1.ConfigMap{}),
		"list":          c.List(ctx, &all, client.InNamespace("other")),
		"create":        c.Create(ctx, aConfigMap("other", "four")),
		"update":        c.Update(ctx, other),
		"delete":        c.Delete(ctx, other),
		"delete all of": c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("other")),
		"apply":         c.Apply(ctx, corev1apply.ConfigMap("four", "other"), client.FieldOwner("x")),
		"status":        c.Status().Update(ctx, other),
	} {
		if err == nil || !strings.Contains(err.Error(), `namespace "other": the client is restricted to namespace "mine"`) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "other"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllOf(ctx, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
	if err := env.Client().Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
		t.Error(err)
	}
}

func TestInterceptorCallsItsFunctions(t *testing.T) {
	env, ctx := kapoktest.Start(t), t.Context()
	broken := errors.New("broken")
	var subs []string
	c := interceptor.NewClient(env.Client(), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return broken },
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			obj.SetLabels(map[string]string{"intercepted": "true"})
			return c.Create(ctx, obj, opts...)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, name string, _ client.Object, _ ...client.SubResourceUpdateOption) error {
			subs = append(subs, name)
			return broken
		},
	})
	one := aConfigMap("default", "one")
	if err := c.Create(ctx, one); err != nil || one.Labels["intercepted"] != "true" {
		t.Error(one.Labels, err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
		t.Error(err)
	}
	if err := c.Update(ctx, one); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := errors.Join(c.Status().Update(ctx, one), c.SubResource("scale").Update(ctx, one)); !errors.Is(err, broken) || !slices.Equal(subs, []string{"status", "scale"}) {
		t.Error(subs, err)
	}
	if err := c.Delete(ctx, one); err != nil {
		t.Error(err)
	}
}
