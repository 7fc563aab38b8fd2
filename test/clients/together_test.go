package clients

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestStopTogether ends a server, a manager and an informer with one context. The server ends last,
// so that no client has an error to report, which blocks forever in a bubble: see package kapok.
func TestStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		srv, err := kapok.Start(ctx, kapok.Options{})
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
		seen := make(chan struct{}, 1)
		err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var cm corev1.ConfigMap
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, &cm); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			select {
			case seen <- struct{}{}:
			default:
			}
			return reconcile.Result{}, nil
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
		informer := factory.Core().V1().ConfigMaps().Informer()
		factory.Start(ctx.Done())
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		if _, err := typed.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-seen

		cancel()
		factory.Shutdown()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := srv.Wait(); err != nil {
			t.Error(err)
		}
	})
}
