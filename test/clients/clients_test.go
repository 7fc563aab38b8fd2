// Package clients tests that clients of Kubernetes work with Kapok: client-go's dynamic and typed
// clients, discovery, RESTMapper and informers, controller-runtime's client, cache and manager.
package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// start starts an embedded server that serves widgets.
func start(t *testing.T) *rest.Config {
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
	installWidgets(t, server.Config())
	return server.Config()
}

func installWidgets(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: widgets.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size":  {Type: "integer"},
							"ratio": {Type: "number"},
						}},
					},
				}},
			}},
		},
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := crds.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + crd.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		for _, c := range event.Object.(*apiextensionsv1.CustomResourceDefinition).Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return
			}
		}
	}
	t.Fatal("the watch ended before widgets were established")
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec":       map[string]any{"size": size, "ratio": 1.5},
	}}
}

func TestDynamic(t *testing.T) {
	client, err := dynamic.NewForConfig(start(t))
	if err != nil {
		t.Fatal(err)
	}
	all := client.Resource(widgets).Namespace("default")
	created, err := all.Create(t.Context(), widget("a", 1<<53+1), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, err := unstructured.NestedInt64(created.Object, "spec", "size"); err != nil || size != 1<<53+1 {
		t.Errorf("size is %d, %v", size, err)
	}
	if ratio, _, err := unstructured.NestedFloat64(created.Object, "spec", "ratio"); err != nil || ratio != 1.5 {
		t.Errorf("ratio is %v, %v", ratio, err)
	}
	stale := created.DeepCopy()
	if _, err := all.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	applied := widget("a", 3)
	unstructured.RemoveNestedField(applied.Object, "spec", "ratio")
	if _, err := all.Apply(t.Context(), "a", applied, metav1.ApplyOptions{FieldManager: "me"}); !apierrors.IsConflict(err) {
		t.Errorf("apply over another manager: %v", err)
	}
	if _, err := all.Apply(t.Context(), "a", applied, metav1.ApplyOptions{FieldManager: "me", Force: true}); err != nil {
		t.Errorf("forced apply: %v", err)
	}
	if err := all.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := all.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after delete: %v", err)
	}
}

func TestDynamicPagesAndCollections(t *testing.T) {
	client, err := dynamic.NewForConfig(start(t))
	if err != nil {
		t.Fatal(err)
	}
	all := client.Resource(widgets).Namespace("default")
	for i := range 25 {
		if _, err := all.Create(t.Context(), widget(fmt.Sprintf("w%02d", i), int64(i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seen, next := 0, ""
	for page := 0; page == 0 || next != ""; page++ {
		list, err := all.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: next})
		if err != nil {
			t.Fatal(err)
		}
		seen, next = seen+len(list.Items), list.GetContinue()
	}
	if seen != 25 {
		t.Errorf("pages held %d of 25 objects", seen)
	}
	if err := all.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := all.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("after deletecollection: %d objects, %v", len(list.Items), err)
	}
}

// TestTyped uses the generated clientset with its defaults, and with protobuf.
func TestTyped(t *testing.T) {
	config := start(t)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			config := rest.CopyConfig(config)
			config.ContentType = media
			config.AcceptContentTypes = media
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			maps := client.CoreV1().ConfigMaps("default")
			w, err := maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=test"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-", Labels: map[string]string{"app": "test"}}, Data: map[string]string{"a": "1"}}
			created, err := maps.Create(t.Context(), cm, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if event := <-w.ResultChan(); event.Type != watch.Added || event.Object.(*corev1.ConfigMap).Name != created.Name {
				t.Errorf("event %v", event)
			}
			created.Data["a"] = "2"
			if _, err := maps.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
			list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"})
			if err != nil || len(list.Items) != 1 || list.Items[0].Data["a"] != "2" {
				t.Errorf("list: %v, %v", list, err)
			}
			if err := maps.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTypedScaleAndStatus(t *testing.T) {
	client, err := kubernetes.NewForConfig(start(t))
	if err != nil {
		t.Fatal(err)
	}
	deployments := client.AppsV1().Deployments("default")
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	if deployment, err = deployments.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := deployments.GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		t.Fatalf("scale: %+v, %v", scale, err)
	}
	scale.Spec.Replicas = 3
	if _, err := deployments.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale status update: %v", err)
	}
	deployment, err = deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || ptr.Deref(deployment.Spec.Replicas, 0) != 3 || deployment.Generation != 2 {
		t.Fatalf("after scale: %+v, %v", deployment, err)
	}
	deployment.Status.Replicas = 2
	deployment.Status.ObservedGeneration = 2
	deployment, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	if err != nil || deployment.Status.Replicas != 2 || deployment.Generation != 2 {
		t.Errorf("after status update: %+v, %v", deployment, err)
	}
}

func TestDiscoveryAndMapper(t *testing.T) {
	config := start(t)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]discovery.DiscoveryInterface{"aggregated": client, "legacy": client.WithLegacy()} {
		t.Run(name, func(t *testing.T) {
			_, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, list := range lists {
				for _, r := range list.APIResources {
					found[list.GroupVersion+"/"+r.Name] = true
				}
			}
			for _, want := range []string{"v1/configmaps", "apps/v1/deployments/scale", "example.com/v1/widgets", "apiextensions.k8s.io/v1/customresourcedefinitions"} {
				if !found[want] {
					t.Errorf("%s is not discovered", want)
				}
			}
		})
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	if err != nil || mapping.Resource != widgets {
		t.Errorf("mapping %v, %v", mapping, err)
	}
}

// TestOverTLS uses the socket, with the kubeconfig of a user.
func TestOverTLS(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := client.Discovery().ServerVersion(); err != nil || v.Minor != "37" {
		t.Errorf("version %v, %v", v, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	anonymous := rest.AnonymousClientConfig(config)
	client, err = kubernetes.NewForConfig(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Errorf("anonymous version: %v", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous list of secrets: %v", err)
	}
}
