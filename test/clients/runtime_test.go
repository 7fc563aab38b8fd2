package clients

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestControllerRuntimeClient(t *testing.T) {
	c, err := client.New(start(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := widget("a", 1)
	if err := c.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		t.Error(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "default"}}
	if op, err := controllerutil.CreateOrUpdate(t.Context(), c, cm, func() error {
		cm.Data = map[string]string{"a": "1"}
		return controllerutil.SetControllerReference(w, cm, runtime.NewScheme())
	}); err != nil || op != controllerutil.OperationResultCreated {
		t.Errorf("create or update: %v, %v", op, err)
	}
	meta := &metav1.PartialObjectMetadataList{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := c.List(t.Context(), meta, client.InNamespace("default")); err != nil || len(meta.Items) != 1 {
		t.Errorf("metadata list: %v, %v", meta.Items, err)
	}
	if err := c.Delete(t.Context(), w); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
		t.Errorf("after delete: %v", err)
	}
}

func TestControllerRuntimeCache(t *testing.T) {
	config := start(t)
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := direct.Create(t.Context(), widget(fmt.Sprintf("w%d", i), int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	cached, err := crcache.New(config, crcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cached.Start(ctx) }()
	if !cached.WaitForCacheSync(ctx) {
		t.Fatal("cache did not start")
	}
	list := widgetList()
	if err := cached.List(t.Context(), list); err != nil || len(list.Items) != 3 {
		t.Errorf("cached list: %d, %v", len(list.Items), err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestVirtualDay runs server, informer and manager in one bubble: the clock advances whenever all
// are idle, so that a day takes as long as the work in it.
func TestVirtualDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		srv, err := kapok.Start(t.Context(), kapok.Options{}) // ends after its clients
		if err != nil {
			t.Fatal(err)
		}
		mgr, err := ctrl.NewManager(srv.Config(), ctrl.Options{
			Metrics:    server.Options{BindAddress: "0"},
			Scheme:     scheme.Scheme,
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		ticks := 0
		err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var cm corev1.ConfigMap
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, &cm); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			ticks++
			cm.Data = map[string]string{"at": time.Now().UTC().Format(time.RFC3339)}
			return reconcile.Result{RequeueAfter: time.Hour}, mgr.GetClient().Update(ctx, &cm)
		}))
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- mgr.Start(ctx) }()

		typed, err := kubernetes.NewForConfig(srv.Config())
		if err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactory(typed, 0)
		updates := 0
		informer := factory.Core().V1().ConfigMaps().Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { updates++ }}); err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)

		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "clock"}}
		if _, err := typed.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if ticks < 24 || updates < 24 {
			t.Errorf("in a day the controller ran %d times, the informer delivered %d updates", ticks, updates)
		}
		if age := time.Since(begin); age < 24*time.Hour {
			t.Errorf("only %v have passed", age)
		}
		cancel()
		factory.Shutdown()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func widgetList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widgets.GroupVersion().WithKind("WidgetList"))
	return list
}
