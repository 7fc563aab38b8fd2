package documents

import (
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// clients are the rows about clients.
func clients() []row {
	atResource := schema.GroupVersionResource{Group: atGroup, Version: "v1alpha1", Resource: "ats"}
	return []row{
		{
			id: "L1", says: "REST client: Get Post Put Delete on anything; JSON, protobuf",
			show: func(s *server) {
				for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
					config := rest.CopyConfig(s.Config())
					config.GroupVersion, config.APIPath, config.ContentType = &corev1.SchemeGroupVersion, "/api", contentType
					config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
					c, err := rest.RESTClientFor(config)
					s.ok(err)
					of := func(r *rest.Request) *rest.Request { return r.Namespace("default").Resource("configmaps") }
					m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "b"}}
					s.ok(of(c.Post()).Body(m).Do(s.Context()).Into(m))
					m.Data["a"] = "c"
					s.ok(of(c.Put()).Name("m").Body(m).Do(s.Context()).Into(m))
					got := &corev1.ConfigMap{}
					s.ok(of(c.Get()).Name("m").Do(s.Context()).Into(got))
					if got.Data["a"] != "c" {
						s.Errorf("%s: %v", contentType, got)
					}
					s.ok(of(c.Delete()).Name("m").Do(s.Context()).Error())
				}
			},
		},
		{
			id: "L2", says: "generated clientset: Interface, NewForConfig, Discovery(), CnatV1alpha1().Ats(ns)",
			but: "the clientset of the built-in kinds is one; of their own types, users have typed handles that need no generated code: client.For",
			show: func(s *server) {
				set, err := kubernetes.NewForConfig(s.Config())
				s.ok(err)
				version, err := set.Discovery().ServerVersion()
				s.ok(err)
				if version.Minor != "37" {
					s.Errorf("version %v", version)
				}
				_, err = set.AppsV1().Deployments("default").List(s.Context(), metav1.ListOptions{})
				s.ok(err)
			},
		},
		{
			id: "L3", says: "typed: Create Update UpdateStatus Delete DeleteCollection Get List Watch Patch(subresources...) Expansion",
			but: "contexts and options everywhere",
			show: func(s *server) {
				set, err := kubernetes.NewForConfig(s.Config())
				s.ok(err)
				c, ctx := set.AppsV1().Deployments("default"), s.Context()
				var d appsv1.Deployment
				s.ok(yaml.Unmarshal([]byte(deployment), &d))
				made, err := c.Create(ctx, &d, metav1.CreateOptions{})
				s.ok(err)
				made.Labels = map[string]string{"a": "b"}
				made, err = c.Update(ctx, made, metav1.UpdateOptions{})
				s.ok(err)
				made.Status.Replicas = 2
				made, err = c.UpdateStatus(ctx, made, metav1.UpdateOptions{})
				s.ok(err)
				_, err = c.Patch(ctx, made.Name, types.MergePatchType, []byte(`{"status":{"readyReplicas":1}}`), metav1.PatchOptions{}, "status")
				s.ok(err)
				got, err := c.Get(ctx, made.Name, metav1.GetOptions{})
				s.ok(err)
				if got.Status.Replicas != 2 || got.Status.ReadyReplicas != 1 || got.Labels["a"] != "b" {
					s.Errorf("%+v", got)
				}
				list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
				s.ok(err)
				w, err := c.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
				s.ok(err)
				defer w.Stop()
				s.ok(c.Delete(ctx, made.Name, metav1.DeleteOptions{}))
				if e := <-w.ResultChan(); e.Type != "DELETED" {
					s.Errorf("event %v", e)
				}
				s.ok(c.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
			},
		},
		{
			id: "L4", says: "dynamic: by GVR, any kind, JSON, no Scheme or RESTMapper; no Namespace() for cluster scope",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				c, err := dynamic.NewForConfig(s.Config())
				s.ok(err)
				got, err := c.Resource(atResource).Namespace("default").Get(s.Context(), "example-at", metav1.GetOptions{})
				s.ok(err)
				if got.GetKind() != "At" {
					s.Errorf("%v", got)
				}
				_, err = c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(s.Context(), "default", metav1.GetOptions{})
				s.ok(err)
			},
		},
		{
			id: "L5", says: "discovery client",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				c, err := clientdiscovery.NewDiscoveryClientForConfig(s.Config())
				s.ok(err)
				list, err := c.ServerResourcesForGroupVersion(atGroup + "/v1alpha1")
				s.ok(err)
				if list.APIResources[0].Name != "ats" {
					s.Errorf("%v", list)
				}
			},
		},
		{
			id: "L6", says: "one client for all types of a Scheme, kinds mapped by discovery",
			but: "contexts first, and options last: List(ctx, list, client.InNamespace(...))",
			show: func(s *server) {
				s.must(201, "POST", pods, manifest(s, "pod.yaml"))
				c, err := client.New(s.Config(), client.Options{Scheme: scheme.Scheme})
				s.ok(err)
				list := &corev1.PodList{}
				s.ok(c.List(s.Context(), list, client.InNamespace("default")))
				spaces := &corev1.NamespaceList{}
				s.ok(c.List(s.Context(), spaces))
				if len(list.Items) != 1 || list.Items[0].Name != "my-first-pod" || len(spaces.Items) != 4 {
					s.Errorf("%d pods, %d namespaces", len(list.Items), len(spaces.Items))
				}
			},
		},
		{
			id: "L7", says: "Unstructured: map[string]interface{}, []interface{}, string, bool, int64, float64; UnstructuredContent()",
			show: func(s *server) {
				s.define(crd("foos", "example.com", "Foo", ""))
				s.must(201, "POST", "/apis/example.com/v1/namespaces/default/foos",
					"{apiVersion: example.com/v1, kind: Foo, metadata: {name: a}, spec: {map: {}, list: [], text: x, bool: true, int: 1, float: 1.5}}")
				c, err := client.New(s.Config(), client.Options{})
				s.ok(err)
				u := &unstructured.Unstructured{}
				u.SetAPIVersion("example.com/v1")
				u.SetKind("Foo")
				s.ok(c.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, u))
				spec := u.UnstructuredContent()["spec"].(map[string]any)
				for name, fits := range map[string]func(any) bool{
					"map": is[map[string]any], "list": is[[]any], "text": is[string], "bool": is[bool], "int": is[int64], "float": is[float64],
				} {
					if !fits(spec[name]) {
						s.Errorf("%s is %T", name, spec[name])
					}
				}
			},
		},
		{
			id: "L8", says: "NestedString: value, found, err (wrong type)",
			show: func(s *server) {
				obj := map[string]any{"metadata": map[string]any{"name": "foo", "generation": int64(1)}}
				if name, found, err := unstructured.NestedString(obj, "metadata", "name"); name != "foo" || !found || err != nil {
					s.Error(name, found, err)
				}
				if _, found, err := unstructured.NestedString(obj, "metadata", "uid"); found || err != nil {
					s.Error(found, err)
				}
				if _, _, err := unstructured.NestedString(obj, "metadata", "generation"); err == nil {
					s.Error("a number is a string")
				}
			},
		},
		{
			id: "L9", says: "NestedFieldCopy (deep), NestedFieldNoCopy, NestedBool Float64 Int64 StringSlice Slice StringMap; SetNestedField",
			show: func(s *server) {
				obj := map[string]any{}
				for path, v := range map[string]any{"bool": true, "float": 1.5, "int": int64(2), "list": []any{"a"}, "map": map[string]any{"a": "b"}} {
					s.ok(unstructured.SetNestedField(obj, v, "spec", path))
				}
				copied, _, err := unstructured.NestedFieldCopy(obj, "spec", "map")
				s.ok(err)
				copied.(map[string]any)["a"] = "c"
				same, _, err := unstructured.NestedFieldNoCopy(obj, "spec", "map")
				s.ok(err)
				if same.(map[string]any)["a"] != "b" {
					s.Error("a copy is not deep")
				}
				same.(map[string]any)["a"] = "d"
				m, _, err := unstructured.NestedStringMap(obj, "spec", "map")
				s.ok(err)
				b, _, err := unstructured.NestedBool(obj, "spec", "bool")
				s.ok(err)
				f, _, err := unstructured.NestedFloat64(obj, "spec", "float")
				s.ok(err)
				i, _, err := unstructured.NestedInt64(obj, "spec", "int")
				s.ok(err)
				texts, _, err := unstructured.NestedStringSlice(obj, "spec", "list")
				s.ok(err)
				list, _, err := unstructured.NestedSlice(obj, "spec", "list")
				s.ok(err)
				if m["a"] != "d" || !b || f != 1.5 || i != 2 || texts[0] != "a" || list[0] != "a" {
					s.Error(m, b, f, i, texts, list)
				}
			},
		},
		{
			id: "L10", says: "interface Unstructured: NewEmptyInstance UnstructuredContent (never nil) SetUnstructuredContent IsList EachListItem (error if no list)",
			show: func(s *server) {
				var u runtime.Unstructured = &unstructured.Unstructured{}
				if u.UnstructuredContent() == nil || u.IsList() || u.EachListItem(func(runtime.Object) error { return nil }) == nil {
					s.Error("an empty object")
				}
				u = u.NewEmptyInstance()
				u.SetUnstructuredContent(map[string]any{"kind": "FooList", "items": []any{map[string]any{"kind": "Foo"}}})
				n := 0
				s.ok(u.EachListItem(func(runtime.Object) error { n++; return nil }))
				if !u.IsList() || n != 1 {
					s.Errorf("%d items", n)
				}
			},
		},
		{
			id: "L11", says: "garbage collector: any kind; deletes objects whose owner is gone",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				owner := s.must(201, "POST", ats, manifest(s, "at.yaml"))
				c, err := client.New(s.Config(), client.Options{})
				s.ok(err)
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dependent", Namespace: "default"}}
				u := &unstructured.Unstructured{Object: owner.tree}
				s.ok(client.SetControllerReference(u, m, scheme.Scheme))
				s.ok(c.Create(s.Context(), m))
				s.ok(c.Delete(s.Context(), u))
				s.until("/api/v1/namespaces/default/configmaps/dependent", func(a *answer) bool { return a.code == 404 })
			},
		},
		{
			id: "L13", says: "context first; Get takes a NamespacedName second",
			show: func(s *server) {
				c, err := client.New(s.Config(), client.Options{})
				s.ok(err)
				s.ok(c.Get(s.Context(), types.NamespacedName{Name: "default"}, &corev1.Namespace{}))
			},
		},
	}
}

// ok ends a row that an error ends.
func (s *server) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}
