package cache_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A cache follows a server, and is read like it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	writer, err := client.New(server.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cache.New(server.Config(), cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		log.Fatal(err)
	}
	byColor := func(o client.Object) []string { return []string{o.(*corev1.ConfigMap).Data["color"]} }
	if err := c.IndexField(ctx, &corev1.ConfigMap{}, "data.color", byColor); err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			log.Print(err)
		}
	})
	defer running.Wait()
	defer cancel()
	c.WaitForCacheSync(ctx)

	apple := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "apple"}, Data: map[string]string{"color": "red"}}
	if err := writer.Create(ctx, apple); err != nil {
		log.Fatal(err)
	}
	informer, err := c.GetInformer(ctx, apple)
	if err != nil {
		log.Fatal(err)
	}
	if err := informer.WaitForObject(ctx, apple); err != nil {
		log.Fatal(err)
	}

	var red corev1.ConfigMapList
	if err := c.List(ctx, &red, client.MatchingFields{"data.color": "red"}); err != nil {
		log.Fatal(err)
	}
	for _, fruit := range red.Items {
		fmt.Println(fruit.Kind, fruit.Name, len(fruit.ManagedFields))
	}
	// Output: ConfigMap apple 0
}
