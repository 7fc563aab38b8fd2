package controller

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kapok-dev/kapok/manager"
)

// LoggerFrom returns the logger of a context: in Reconcile, one that names the controller, the object, and this call (reconcileID).
// values are added to it. Without a logger in the context, it is manager.Log. Who likes slog better calls
// logr.FromContextAsSlogLogger.
func LoggerFrom(ctx context.Context, values ...any) logr.Logger {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = manager.Log
	}
	return log.WithValues(values...)
}

// LoggerInto returns a context with a logger.
func LoggerInto(ctx context.Context, log logr.Logger) context.Context {
	return logr.NewContext(ctx, log)
}

// FromContext is LoggerFrom, for files that call it by the name of controller-runtime's package log.
func FromContext(ctx context.Context, values ...any) logr.Logger { return LoggerFrom(ctx, values...) }

// IntoContext is LoggerInto, for files that call it by the name of controller-runtime's package log.
func IntoContext(ctx context.Context, log logr.Logger) context.Context { return LoggerInto(ctx, log) }

// ReconcileIDFromContext returns what names this call of Reconcile in logs; "" outside of one.
func ReconcileIDFromContext(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileID{}).(types.UID)
	return id
}

type reconcileID struct{} // key of a context

// logConstructor makes loggers that name the object under a key of the kind, and by parts.
func logConstructor(log logr.Logger, key string) func(*Request) logr.Logger {
	return func(r *Request) logr.Logger {
		if r == nil {
			return log
		}
		return log.WithValues(key, klog.KRef(r.Namespace, r.Name), "namespace", r.Namespace, "name", r.Name)
	}
}
