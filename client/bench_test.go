package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// What a client costs, without a server: Kapok's and client-go's typed and dynamic clients, as JSON
// and as protobuf.
func BenchmarkClient(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}}
	for i := range 3 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "nginx",
			Env: []corev1.EnvVar{{Name: "A", Value: "B"}, {Name: "C", Value: "D"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}})
	}
	list := &corev1.PodList{}
	for range 500 {
		list.Items = append(list.Items, *pod)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)

	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		encode := func(obj runtime.Object) []byte {
			body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
			if err != nil {
				b.Fatal(err)
			}
			return body
		}
		one, many := encode(pod), encode(list)
		server := &echo{contentType: contentType}
		hc := &http.Client{Transport: server}
		cfg := &rest.Config{Host: "http://server", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}}
		c, err := client.New(cfg, client.Options{HTTPClient: hc, Mapper: mapper})
		if err != nil {
			b.Fatal(err)
		}
		typed, err := kubernetes.NewForConfigAndClient(cfg, hc)
		if err != nil {
			b.Fatal(err)
		}
		untyped, err := dynamic.NewForConfigAndClient(cfg, hc)
		if err != nil {
			b.Fatal(err)
		}
		newU := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			return u
		}
		newUList := func() *unstructured.UnstructuredList {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			return u
		}
		gvr := corev1.SchemeGroupVersion.WithResource("pods")
		for _, bench := range []struct {
			name   string
			answer []byte
			do     func() error
		}{
			{"Get/kapok", one, func() error { return c.Get(b.Context(), client.Key("default", "web"), &corev1.Pod{}) }},
			{"Get/client-go", one, func() error {
				return second(typed.CoreV1().Pods("default").Get(b.Context(), "web", metav1.GetOptions{}))
			}},
			{"Create/kapok", one, func() error { return c.Create(b.Context(), pod.DeepCopy()) }},
			{"Create/client-go", one, func() error {
				return second(typed.CoreV1().Pods("default").Create(b.Context(), pod.DeepCopy(), metav1.CreateOptions{}))
			}},
			{"List500/kapok", many, func() error { return c.List(b.Context(), &corev1.PodList{}, client.InNamespace("default")) }},
			{"List500/client-go", many, func() error { return second(typed.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{})) }},
			{"GetUnstructured/kapok", one, func() error { return c.Get(b.Context(), client.Key("default", "web"), newU()) }},
			{"GetUnstructured/client-go", one, func() error {
				return second(untyped.Resource(gvr).Namespace("default").Get(b.Context(), "web", metav1.GetOptions{}))
			}},
			{"List500Unstructured/kapok", many, func() error { return c.List(b.Context(), newUList(), client.InNamespace("default")) }},
			{"List500Unstructured/client-go", many, func() error {
				return second(untyped.Resource(gvr).Namespace("default").List(b.Context(), metav1.ListOptions{}))
			}},
		} {
			if contentType == runtime.ContentTypeProtobuf && strings.Contains(bench.name, "Unstructured") {
				continue
			}
			b.Run(info.MediaTypeSubType+"/"+bench.name, func(b *testing.B) {
				server.body = bench.answer
				b.ReportAllocs()
				for b.Loop() {
					if err := bench.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
