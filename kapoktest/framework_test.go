package kapoktest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// TestFrameworkInBubble runs two managers of this module's framework for days: one leads and copies
// config maps into secrets every day, then the other takes over.
func TestFrameworkInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		const day = 24 * time.Hour
		var mu sync.Mutex
		copies := map[string]int{}
		begin := func(name string) (stop func()) {
			mgr, err := manager.New(env.Config(), manager.Options{
				Scheme:         clientscheme.Scheme,
				LeaderElection: true, LeaderElectionID: "lock", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
				LeaseDuration: new(time.Hour), RenewDeadline: new(40 * time.Minute), RetryPeriod: new(10 * time.Minute),
			})
			if err != nil {
				t.Fatal(err)
			}
			c, failed := mgr.GetClient(), false
			err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(ctrl.Func(
				func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
					from := &corev1.ConfigMap{}
					if err := c.Get(ctx, req.NamespacedName, from); err != nil || req.Name != "from" {
						return ctrl.Result{}, client.IgnoreNotFound(err)
					}
					if failed = !failed; failed {
						return ctrl.Result{}, errors.New("each other time")
					}
					to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
					if _, err := client.CreateOrUpdate(ctx, c, to, func() error { return ctrl.SetControllerReference(from, to, c.Scheme()) }); err != nil {
						return ctrl.Result{}, err
					}
					mu.Lock()
					defer mu.Unlock()
					copies[name]++
					return ctrl.Result{RequeueAfter: day}, nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(env.Context())
			env.Go(func(context.Context) error { return mgr.Start(ctx) })
			return cancel
		}
		env.Create(configMap("from"))
		stop := begin("first")
		env.Settle()
		stopSecond := begin("second")
		defer stopSecond()
		time.Sleep(5 * day)
		synctest.Wait()
		if copies["first"] < 6 || copies["first"] > 7 || copies["second"] > 0 { // the event of the secret itself is one more
			t.Errorf("copies: %v", copies)
		}
		stop()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		env.WaitFor(ctx, lease, func() bool { return *lease.Spec.HolderIdentity != "" && *lease.Spec.LeaseTransitions > 0 })
		time.Sleep(5 * day)
		synctest.Wait()
		if copies["second"] < 5 || copies["second"] > 7 {
			t.Errorf("copies: %v", copies)
		}
		env.Delete(configMap("from"))
		env.Settle()
		if env.Exists(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "from"}}) {
			t.Error("the copy outlives what it is a copy of")
		}
	})
}
