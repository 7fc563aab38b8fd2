package controller

import (
	"context"

	"github.com/kapok-dev/kapok/manager/log"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// LoggerFrom returns the logger of ctx, with key-value pairs added. In Reconcile it carries the
// controller, the object, and the ID of the call (reconcileID). Default: manager.Log. For log/slog
// use logr.FromContextAsSlogLogger.
func LoggerFrom(ctx context.Context, values ...any) logr.Logger {
	return log.FromContext(ctx, values...)
}

// LoggerInto returns a copy of ctx that carries the logger.
func LoggerInto(ctx context.Context, logger logr.Logger) context.Context {
	return log.IntoContext(ctx, logger)
}

// FromContext is LoggerFrom under the name in controller-runtime's package log.
func FromContext(ctx context.Context, values ...any) logr.Logger { return LoggerFrom(ctx, values...) }

// IntoContext is LoggerInto under the name in controller-runtime's package log.
func IntoContext(ctx context.Context, log logr.Logger) context.Context { return LoggerInto(ctx, log) }

// ReconcileIDFromContext returns the ID of the current call of Reconcile, which its log lines
// carry. It is "" outside of Reconcile.
func ReconcileIDFromContext(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileID{}).(types.UID)
	return id
}

type reconcileID struct{} // key of a context

// logConstructor returns a function that returns the logger of a request. It adds a Request as an
// object under key, and as namespace and name; a request of another type is added as it is.
func logConstructor[request comparable](log logr.Logger, key string) func(*request) logr.Logger {
	return func(r *request) logr.Logger {
		if r == nil {
			return log
		}
		if r, ok := any(r).(*Request); ok {
			return log.WithValues(key, klog.KRef(r.Namespace, r.Name), "namespace", r.Namespace, "name", r.Name)
		}
		return log.WithValues("request", *r)
	}
}
