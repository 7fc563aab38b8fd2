package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// exampleClient returns a client of a server of its own. Any other rest.Config does as well.
func exampleClient(ctx context.Context) (client.WithWatch, func() error) {
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.NewWithWatch(server.Config(), client.Options{FieldOwner: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return c, server.Stop
}

// A client reads and writes objects of any Go type of its Scheme.
func Example() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"},
		Data:       map[string]string{"sky": "blue"},
	}
	if err := c.Create(ctx, cm); err != nil {
		log.Fatal(err)
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace("default")); err != nil {
		log.Fatal(err)
	}
	for _, item := range list.Items {
		fmt.Println(item.Name, item.Data)
	}
	// Output:
	// colors map[sky:blue]
}

// A handle is for one kind, and knows its Go type.
func ExampleFor() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	configMaps := client.For[*corev1.ConfigMap](c).In("default")
	err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors"}, Data: map[string]string{"sky": "blue"}})
	if err != nil {
		log.Fatal(err)
	}
	cm, err := configMaps.Get(ctx, client.Key("", "colors"))
	if err != nil {
		log.Fatal(err)
	}
	cm.Data["sky"] = "grey"
	if err := configMaps.Update(ctx, cm); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cm.Namespace, cm.Name, cm.Data)
	// Output:
	// default colors map[sky:grey]
}

// All reads page by page, whatever there is.
func ExampleHandle_All() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	for namespace, err := range client.For[*corev1.Namespace](c).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(namespace.Name)
	}
	// Output:
	// default
	// kube-node-lease
	// kube-public
	// kube-system
}

// Watch tells what is there, and what happens from then on.
func ExampleHandle_Watch() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	namespaces := client.For[*corev1.Namespace](c)
	for event, err := range namespaces.Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, event.Object.Name)
		if event.Object.Name == "kube-system" {
			break // else it goes on until the context ends
		}
	}
	// Output:
	// ADDED default
	// ADDED kube-node-lease
	// ADDED kube-public
	// ADDED kube-system
}

// A kind without a Go type is known by its resource.
func ExampleDynamic() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	deployments := client.Dynamic(c, appsv1.SchemeGroupVersion.WithResource("deployments")).In("default")
	err := deployments.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx"}}},
			},
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	scale, err := deployments.SetScale(ctx, client.Key("", "web"), 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scale.Name, scale.Spec.Replicas)
	// Output:
	// web 3
}

// An apply sends the fields that its owner sets, as an apply configuration of client-go or as a
// plain object.
func ExampleApplyConfigurationFrom() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	err := c.Apply(ctx, corev1ac.ConfigMap("colors", "default").WithData(map[string]string{"sky": "blue"}), client.FieldOwner("painter"))
	if err != nil {
		log.Fatal(err)
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"},
		Data:       map[string]string{"grass": "green"},
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFrom(cm), client.FieldOwner("gardener")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cm.Data)
	// Output:
	// map[grass:green sky:blue]
}

// CreateOrUpdate makes an object what it shall be.
func ExampleCreateOrUpdate() {
	ctx := context.Background()
	c, stop := exampleClient(ctx)
	defer stop()

	for _, color := range []string{"blue", "blue", "grey"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"}}
		result, err := client.CreateOrUpdate(ctx, c, cm, func() error {
			cm.Data = map[string]string{"sky": color}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(color, result)
	}
	// Output:
	// blue created
	// blue unchanged
	// grey updated
}
