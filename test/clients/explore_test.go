package clients

import (
	"context"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestExploreServerErrorsOfManager starts an operator of controller-runtime, which reconciles with
// each seed, although half of all requests fail once it has started: its discovery requests
// succeed, as faults begin when its first cache has synced.
func TestExploreServerErrorsOfManager(t *testing.T) {
	met := 0
	kapoktest.Explore(t, 5, kapoktest.Faults{ServerError: 0.5}, func(t testing.TB, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), nil)
		err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			cm := &corev1.ConfigMap{}
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, cm); err != nil || cm.Data["done"] != "" || r.Name != "cm" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			cm.Data = map[string]string{"done": "yes"}
			return reconcile.Result{}, mgr.GetClient().Update(ctx, cm)
		}))
		check(t, err)
		env.Go(mgr.Start)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}
		env.Create(cm)
		env.Settle()
		time.Sleep(time.Minute)
		if env.Get(cm); cm.Data["done"] == "" {
			t.Error("there was no reconcile")
		}
		met += len(env.Faults())
	})
	if met == 0 {
		t.Error("no fault has happened")
	}
}
