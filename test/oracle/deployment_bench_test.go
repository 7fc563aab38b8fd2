package oracle

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	benchReplicas = 1000
	benchObjects  = 2000 // of each of five kinds
)

// BenchmarkControllers compares kapok up with kube-apiserver, etcd and kube-controller-manager, all
// as processes that write to the same disk: a Deployment of 1,000 replicas is created and rolled
// out, with pods that become ready at once, and a namespace with 10,000 objects is deleted. The
// processor time is that of the servers and controllers, without this client.
func BenchmarkControllers(b *testing.B) {
	klog.SetLogger(logr.Discard())
	kubernetes := func(flags ...string) func(*testing.B) *rest.Config {
		return func(b *testing.B) *rest.Config {
			dir := b.TempDir()
			config, stop, err := StartServer(dir)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(stop)
			m, err := StartControllerManager(config, dir, io.Discard, flags...)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(m.Stop)
			return config
		}
	}
	for _, c := range []struct {
		name  string
		start func(*testing.B) *rest.Config
	}{
		{"kapok", startKapok},
		{"kubernetes", kubernetes("--kube-api-qps=20", "--kube-api-burst=30")},
		{"kubernetes-without-limits", kubernetes("--kube-api-qps=100000", "--kube-api-burst=100000")},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				measureControllers(b, c.start(b))
			}
		})
	}
}

// startKapok builds the command and runs it.
func startKapok(b *testing.B) *rest.Config {
	config, _ := runKapok(b, buildKapok(b), b.TempDir(), "--namespace-grace=0")
	return config
}

// buildKapok builds the command, and returns its path.
func buildKapok(b *testing.B) string {
	binary := filepath.Join(b.TempDir(), "kapok")
	build := exec.Command("go", "build", "-o", binary, "./cmd/kapok")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build kapok: %v\n%s", err, out)
	}
	return binary
}

// runKapok runs kapok up on the data directory of dir until stop is called.
func runKapok(b *testing.B, binary, dir string, flags ...string) (config *rest.Config, stop func()) {
	kubeconfig := filepath.Join(dir, "kubeconfig")
	_ = os.Remove(kubeconfig) // of an earlier run
	p := exec.Command(binary, append([]string{
		"up", "--data-dir=" + filepath.Join(dir, "data"), "--listen=127.0.0.1:0", "--kubeconfig=" + kubeconfig,
	}, flags...)...)
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = p.Process.Signal(os.Interrupt)
		_ = p.Wait()
	})
	b.Cleanup(stop)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		if time.Now().After(until) {
			b.Fatal("kapok up does not become ready")
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	return config, stop
}

func measureControllers(b *testing.B, config *rest.Config) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	for _, name := range []string{"first", "many", "full"} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			b.Fatal(err)
		}
	}
	rollOut(b, c, "first", 1) // the controllers have started
	create, roll, used := rollOut(b, c, "many", benchReplicas)
	b.ReportMetric(create.Seconds(), "s/create")
	b.ReportMetric(used.Seconds()*1000/benchReplicas, "ms-cpu/pod")
	b.ReportMetric(roll.Seconds(), "s/rollout")
	fill(b, c, "full")
	began, before := time.Now(), childrenTime(b)
	if err := c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "full"}}); err != nil {
		b.Fatal(err)
	}
	for {
		err := c.Get(ctx, client.ObjectKey{Name: "full"}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s/namespace")
	b.ReportMetric((childrenTime(b) - before).Seconds(), "s-cpu/namespace")
}

// rollOut creates a Deployment and updates its template. It returns how long the creation took
// until all pods existed, the processor time of that, and how long the update took.
func rollOut(b *testing.B, c client.WithWatch, namespace string, replicas int32) (create, roll, used time.Duration) {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
		},
	}}
	wait := func(condition func(appsv1.DeploymentStatus) bool) {
		for until := time.Now().Add(10 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if err := c.Get(b.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				b.Fatal(err)
			}
			if d.Status.ObservedGeneration == d.Generation && condition(d.Status) {
				return
			}
			if time.Now().After(until) {
				b.Fatalf("after ten minutes: %+v", d.Status)
			}
		}
	}
	began, before := time.Now(), childrenTime(b)
	if err := c.Create(b.Context(), d); err != nil {
		b.Fatal(err)
	}
	wait(func(s appsv1.DeploymentStatus) bool { return s.Replicas == replicas })
	create, used = time.Since(began), childrenTime(b)-before
	stop := becomeReady(b, c, namespace)
	defer stop()
	wait(func(s appsv1.DeploymentStatus) bool { return s.AvailableReplicas == replicas })
	began = time.Now()
	for {
		d.Spec.Template.Spec.Containers[0].Image = "web:2"
		err := c.Update(b.Context(), d)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			b.Fatal(err)
		}
		if err := c.Get(b.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			b.Fatal(err)
		}
	}
	wait(func(s appsv1.DeploymentStatus) bool {
		return s.UpdatedReplicas == replicas && s.AvailableReplicas == replicas && s.Replicas == replicas
	})
	return create, time.Since(began), used
}

// becomeReady makes each pod of a namespace ready as soon as it exists.
func becomeReady(b *testing.B, c client.WithWatch, namespace string) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		b.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for e := range w.ResultChan() {
				p, ok := e.Object.(*corev1.Pod)
				if !ok || e.Type == watch.Deleted || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodRunning {
					continue
				}
				p.Status.Phase = corev1.PodRunning
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
				_ = c.Status().Update(ctx, p) // the pod may be gone
			}
		})
	}
	return func() {
		cancel()
		w.Stop()
		workers.Wait()
	}
}

// fill creates objects of five kinds.
func fill(b *testing.B, c client.Client, namespace string) {
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for i := w; i < benchObjects; i += 16 {
				meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("o-", i)}
				for _, o := range []client.Object{
					&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}},
					&corev1.Secret{ObjectMeta: meta},
					&corev1.ServiceAccount{ObjectMeta: meta},
					&corev1.PodTemplate{ObjectMeta: meta, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}}}},
					&corev1.LimitRange{ObjectMeta: meta},
				} {
					if err := c.Create(b.Context(), o); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
}

// childrenTime returns the processor time of the processes that this one has started.
func childrenTime(b *testing.B) (total time.Duration) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		b.Skip("there is no /proc")
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name in parentheses: state, parent, and as 12th and 13th the time in ticks of 10 ms.
		_, after, _ := strings.Cut(string(text), ") ")
		words := strings.Fields(after)
		if len(words) < 13 || words[1] != fmt.Sprint(os.Getpid()) {
			continue
		}
		for _, w := range words[11:13] {
			var ticks int64
			if _, err := fmt.Sscan(w, &ticks); err != nil {
				b.Fatal(err)
			}
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}
