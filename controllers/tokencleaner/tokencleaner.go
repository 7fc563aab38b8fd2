// Package tokencleaner deletes the Secrets of bootstrap tokens when they have expired. It handles
// Secrets of type bootstrap.kubernetes.io/token in kube-system, and caches only the metadata of
// Secrets.
//
// The package starts no goroutine.
package tokencleaner

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/bootstraptoken"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader()}
	return controller.NewControllerManagedBy(m).Named("token-cleaner-controller").
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []controller.Request {
			if o.GetNamespace() != bootstraptoken.Namespace {
				return nil
			}
			return []controller.Request{handler.RequestFor(o)}
		})).
		Complete(r)
}

// reconciler is the Reconciler of Secrets. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var s corev1.Secret
	if err := r.live.Get(ctx, req.NamespacedName, &s); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if s.Type != corev1.SecretTypeBootstrapToken || s.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	left, expired := bootstraptoken.Expires(&s, time.Now())
	if !expired {
		return controller.Result{RequeueAfter: left}, nil
	}
	// A token that has been prolonged since the read is not deleted.
	err := r.client.Delete(ctx, &s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if apierrors.IsConflict(err) {
		return controller.Result{}, nil // an event of the change follows
	}
	return controller.Result{}, client.IgnoreNotFound(err)
}
