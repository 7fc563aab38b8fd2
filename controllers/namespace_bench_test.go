//go:build unix

package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkDeleteNamespace deletes namespaces with 2,000 ConfigMaps, Secrets, ServiceAccounts,
// ReplicaSets and pods each, on a server with a data directory and all controllers, until they have
// gone.
func BenchmarkDeleteNamespace(b *testing.B) {
	const each = 2000
	server, err := kapok.Start(b.Context(), kapok.Options{DataDir: b.TempDir(), Controllers: controllers.Options{}})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var took, cpu time.Duration
	for i := range b.N {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)}}
		if err := c.Create(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		fill(b, c, ns.Name, each)
		w, err := c.Watch(b.Context(), &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": ns.Name})
		if err != nil {
			b.Fatal(err)
		}
		began, used := time.Now(), processor()
		if err := c.Delete(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		for e := range w.ResultChan() {
			if e.Type == "DELETED" {
				break
			}
		}
		took += time.Since(began)
		cpu += processor() - used
		w.Stop()
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds()*1000/n, "ms/namespace")
	b.ReportMetric(cpu.Seconds()*1e6/n/(5*each), "us-cpu/object")
}

// fill creates so many objects of each kind in a namespace.
func fill(b *testing.B, c client.Client, namespace string, each int) {
	b.Helper()
	labels := map[string]string{"app": "none"}
	container := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}}
	kinds := []func(metav1.ObjectMeta) client.Object{
		func(m metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: m} },
		func(m metav1.ObjectMeta) client.Object { return &corev1.Secret{ObjectMeta: m} },
		func(m metav1.ObjectMeta) client.Object { return &corev1.ServiceAccount{ObjectMeta: m} },
		func(m metav1.ObjectMeta) client.Object { return &corev1.Pod{ObjectMeta: m, Spec: container} },
		func(m metav1.ObjectMeta) client.Object {
			return &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: container},
			}}
		},
	}
	// Pods are refused until the namespace has its service account.
	for ctx := b.Context(); apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})); {
		time.Sleep(time.Millisecond)
	}
	var creating sync.WaitGroup
	for _, kind := range kinds {
		creating.Go(func() {
			for i := range each {
				if err := c.Create(context.WithoutCancel(b.Context()), kind(metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("o-", i)})); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	creating.Wait()
}
