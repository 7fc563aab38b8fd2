//go:build unix

package controllers_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// BenchmarkDeployment creates Deployments of 1,000 replicas on a server with a data directory,
// until all pods exist, and then rolls them out, with pods that become ready at once.
func BenchmarkDeployment(b *testing.B) {
	const replicas = 1000
	server, err := kapok.Start(b.Context(), kapok.Options{DataDir: b.TempDir(), Controllers: controllers.Options{}})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var create, roll, cpu time.Duration
	for i := range b.N {
		d := deployment(fmt.Sprint("web-", i), replicas)
		began, used := time.Now(), processor()
		if err := c.Create(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		waitFor(b, c, d, func() bool { return d.Status.Replicas == replicas })
		create += time.Since(began)
		cpu += processor() - used
		stop := runPods(b, c)
		waitFor(b, c, d, func() bool { return d.Status.AvailableReplicas == replicas })
		began = time.Now()
		d.Spec.Template.Spec.Containers[0].Image = "web:2"
		if err := c.Update(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		waitFor(b, c, d, func() bool {
			s := d.Status
			return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == replicas && s.AvailableReplicas == replicas && s.Replicas == replicas
		})
		roll += time.Since(began)
		stop()
		if err := c.Delete(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	n := float64(b.N)
	b.ReportMetric(create.Seconds()*1000/n, "ms/create")
	b.ReportMetric(roll.Seconds()*1000/n, "ms/rollout")
	b.ReportMetric(cpu.Seconds()*1e6/n/replicas, "us-cpu/pod")
}

// runPods makes each pod ready as soon as it exists, and removes it when it is deleted, until the
// returned function is called.
func runPods(b *testing.B, c client.WithWatch) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	w, err := c.Watch(ctx, &corev1.PodList{})
	if err != nil {
		b.Fatal(err)
	}
	pods := make(chan *corev1.Pod, 100_000)
	done := make(chan struct{})
	for range 16 {
		go func() {
			defer func() { done <- struct{}{} }()
			for p := range pods {
				if p.DeletionTimestamp != nil {
					_ = c.Delete(ctx, p, client.GracePeriodSeconds(0))
					continue
				}
				p.Status.Phase = corev1.PodRunning
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
				_ = c.Status().Update(ctx, p)
			}
		}()
	}
	go func() {
		defer close(pods)
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if ok && e.Type != watch.Deleted && (p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending) {
				pods <- p
			}
		}
	}()
	return func() {
		cancel()
		w.Stop()
		for range 16 {
			<-done
		}
	}
}

func waitFor(b *testing.B, c client.WithWatch, d *appsv1.Deployment, condition func() bool) {
	b.Helper()
	for until := time.Now().Add(time.Minute); ; {
		if err := c.Get(b.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			b.Fatal(err)
		}
		if condition() {
			return
		}
		if time.Now().After(until) {
			b.Fatalf("after a minute: %+v", d.Status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStart starts a server in memory with all controllers, until these have created the pod
// of a ReplicaSet, and stops it.
func BenchmarkStart(b *testing.B) {
	used := processor()
	defer func() { b.ReportMetric(float64((processor()-used).Microseconds())/float64(b.N), "us-cpu/op") }()
	for b.Loop() {
		server, err := kapok.Start(b.Context(), kapok.Options{Controllers: controllers.Options{}})
		if err != nil {
			b.Fatal(err)
		}
		c, err := client.NewWithWatch(server.Config(), client.Options{})
		if err != nil {
			b.Fatal(err)
		}
		w, err := c.Watch(b.Context(), &corev1.PodList{})
		if err != nil {
			b.Fatal(err)
		}
		d := deployment("web", 1)
		set := &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
		if err := c.Create(b.Context(), set); err != nil {
			b.Fatal(err)
		}
		<-w.ResultChan()
		w.Stop()
		if err := server.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
