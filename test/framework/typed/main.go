package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A reconciler reads the ConfigMaps of clusters.
type reconciler struct{ clients map[string]client.Client }

var _ reconcile.TypedReconciler[Request] = &reconciler{}

func (r *reconciler) Reconcile(ctx context.Context, req Request) (reconcile.Result, error) {
	c, ok := r.clients[req.Cluster]
	if !ok {
		return reconcile.Result{}, reconcile.TerminalError(errors.New("there is no cluster " + req.Cluster))
	}
	config := &corev1.ConfigMap{}
	if err := c.Get(ctx, req.NamespacedName, config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctrl.LoggerFrom(ctx).Info("Read", "request", req, "keys", len(config.Data))
	return reconcile.Result{}, nil
}

func setup(mgr manager.Manager, clusters map[string]cluster.Cluster, events <-chan event.TypedGenericEvent[string]) error {
	r := &reconciler{clients: map[string]client.Client{}}
	b := builder.TypedControllerManagedBy[Request](mgr).Named("texts").
		Watches(&corev1.Secret{}, objects[client.Object](""), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, objects[client.Object]("")).
		WatchesRawSource(names(events)).
		WatchesRawSource(ticks(1<<40, Request{})).
		WithLogConstructor(func(r *Request) logr.Logger {
			if r == nil {
				return mgr.GetLogger()
			}
			return mgr.GetLogger().WithValues("cluster", r.Cluster)
		}).
		WithOptions(controller.TypedOptions[Request]{MaxConcurrentReconciles: 4, RateLimiter: limiter()})
	for name, c := range clusters {
		r.clients[name] = c.GetClient()
		b = b.WatchesRawSource(source.TypedKind(c.GetCache(), &corev1.ConfigMap{}, objects[*corev1.ConfigMap](name),
			changes(func(m *corev1.ConfigMap) int { return len(m.Data) }))).
			WatchesRawSource(source.TypedKind(c.GetCache(), &corev1.Node{}, handler.TypedEventHandler[*corev1.Node, Request](nodes{name})))
	}
	return b.Complete(r)
}

// pods is a controller without a builder, for one type of objects and requests that name one.
func pods(mgr manager.Manager) error {
	c, err := controller.NewTyped("pods", mgr, controller.TypedOptions[reconcile.Request]{
		Reconciler: reconcile.TypedFunc[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return err
	}
	var typed controller.TypedController[reconcile.Request] = c
	return errors.Join(
		typed.Watch(source.Kind(mgr.GetCache(), &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})),
		typed.Watch(source.Kind(mgr.GetCache(), &corev1.Secret{}, handler.TypedEnqueueRequestForOwner[*corev1.Secret](
			mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Pod{}, handler.OnlyControllerOwner()))),
		typed.Watch(source.Kind[client.Object](mgr.GetCache(), &corev1.Service{}, &handler.EnqueueRequestForObject{})))
}

func main() {
	opts := zap.Options{StacktraceLevel: zapcore.DPanicLevel, TimeEncoder: zapcore.ISO8601TimeEncoder}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts), zap.Level(zapcore.Level(-2)), zap.JSONEncoder(func(c *zapcore.EncoderConfig) {
		c.EncodeLevel, c.TimeKey = zapcore.CapitalLevelEncoder, "time"
	})))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err == nil {
		err = errors.Join(setup(mgr, map[string]cluster.Cluster{"here": mgr}, nil), pods(mgr))
	}
	if err == nil {
		err = mgr.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		ctrl.Log.Error(err, "The operator ends")
		os.Exit(1)
	}
}
