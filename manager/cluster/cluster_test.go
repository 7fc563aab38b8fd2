package cluster_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/manager/cluster"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

var _ cluster.Cluster = manager.Manager(nil)

// TestControllerOfTwoClusters runs a controller of one cluster that copies the ConfigMaps of
// another.
func TestControllerOfTwoClusters(t *testing.T) {
	from, to := kapoktest.Start(t), kapoktest.Start(t)
	made := 0
	other, err := cluster.New(from.Config(), func(o *cluster.Options) {
		o.NewCache = func(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
			made++
			return cache.New(cfg, opts)
		}
		o.NewClient = func(cfg *rest.Config, opts client.Options) (client.Client, error) {
			made++
			return client.New(cfg, opts)
		}
	})
	if err != nil || made != 2 {
		t.Fatal(made, err)
	}
	mgr, err := manager.New(to.Config(), manager.Options{EventBroadcaster: record.NewBroadcaster()})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(other); err != nil {
		t.Fatal(err)
	}
	events := mgr.GetEventRecorderFor("copier")
	var named atomic.Int64
	err = controller.NewControllerManagedBy(mgr).Named("copier").
		WithLogConstructor(func(r *controller.Request) logr.Logger {
			if r != nil {
				named.Add(1)
			}
			return mgr.GetLogger()
		}).
		WithOptions(controller.Options{UsePriorityQueue: new(true)}).
		WatchesRawSource(controller.Kind(other.GetCache(), &corev1.ConfigMap{}, handler.EnqueueRequestForObject{})).
		Complete(controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			var source corev1.ConfigMap
			if err := other.GetClient().Get(ctx, r.NamespacedName, &source); err != nil || source.Labels["copy"] == "" {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}, Data: source.Data}
			err := mgr.GetClient().Create(ctx, copied)
			events.Event(copied, corev1.EventTypeNormal, "Copied", "from the other cluster")
			return controller.Result{}, client.IgnoreAlreadyExists(err)
		}))
	if err != nil {
		t.Fatal(err)
	}
	to.Go(mgr.Start)
	from.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"copy": "yes"}}, Data: map[string]string{"a": "1"}})
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	to.WaitFor(t.Context(), one, func() bool { return one.Data["a"] == "1" })
	if named.Load() == 0 {
		t.Error("the function for the logger of a request was not called")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w, err := to.Client().Watch(ctx, &corev1.EventList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if event, ok := e.Object.(*corev1.Event); ok && event.Reason == "Copied" && event.Source.Component == "copier" {
			return
		}
	}
	t.Error("there is no event")
}

func TestLeaderElectionResourceLockIsALease(t *testing.T) {
	for lock, fails := range map[string]bool{"": false, "leases": false, "configmaps": true} {
		_, err := manager.New(&rest.Config{Transport: http.DefaultTransport}, manager.Options{
			LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "default", LeaderElectionResourceLock: lock})
		if (err != nil) != fails {
			t.Errorf("%q: %v", lock, err)
		}
	}
}
