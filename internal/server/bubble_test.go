package server

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// TestInformerInBubble runs a server and an informer for a day of virtual time; no goroutine must
// remain.
func TestInformerInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s, err := Start(ctx, Options{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
		informer := factory.Core().V1().ConfigMaps().Informer()
		seen := map[string]int{}
		informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { seen[o.(*corev1.ConfigMap).Name]++ },
		})
		factory.Start(stop)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("the informer has not synced")
		}
		for range 24 {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "hour-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		close(stop)
		factory.Shutdown()
		if len(seen) != 24 {
			t.Errorf("the informer saw %d of 24 objects", len(seen))
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("the informer saw %s %d times", name, n)
			}
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestRestartKeepsObjects checks that acknowledged writes exist after a restart on the same
// directory.
func TestRestartKeepsObjects(t *testing.T) {
	leakFree(t)
	dir := t.TempDir()
	for run := range 2 {
		s := start(t, Options{DataDir: dir})
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		objects := client.CoreV1().ConfigMaps("default")
		if run == 0 {
			_, err = objects.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
		} else {
			var o *corev1.ConfigMap
			if o, err = objects.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil && o.Data["k"] != "v" {
				t.Errorf("got %v", o)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
