// Package legacytokencleaner deletes the tokens of service accounts that Kubernetes created before
// 1.24 and that have not been used for a year: it marks their secrets with the label
// kubernetes.io/legacy-token-invalid-since, which makes servers reject them, and deletes the
// secrets after another year. Such tokens are listed in the secrets of their account. Tokens that
// users have created, that a pod mounts, or that were used in time are kept.
//
// Servers write the date of the last use into the label kubernetes.io/legacy-token-last-used, and
// the date since which they do so into a config map of kube-system. Kubernetes' controller checks
// all secrets once a day; this one checks a secret when its time has passed, or when a pod or an
// account that uses it is deleted. It caches only the metadata of secrets.
//
// The package starts no goroutine.
package legacytokencleaner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
	// tracking is the config map with the date since which servers write lastUsed.
	tracking = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey = "since"

	day      = 24 * time.Hour
	bySecret = "kapok.dev/secrets"
)

// Options configure the controller. The zero value is that of kube-controller-manager.
type Options struct {
	// CleanUpPeriod is the time without use after which a token is marked, and after another such time
	// deleted. Default: 365 days.
	CleanUpPeriod time.Duration
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	switch {
	case o.CleanUpPeriod < 0:
		return fmt.Errorf("the clean-up period %v is negative", o.CleanUpPeriod)
	case o.CleanUpPeriod == 0:
		o.CleanUpPeriod = 365 * day
	}
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, bySecret, func(o client.Object) []string { return secretsOf(o.(*corev1.Pod)) })
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), period: o.CleanUpPeriod}
	return controller.NewControllerManagedBy(m).Named("legacy-serviceaccount-token-cleaner-controller").
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []controller.Request {
			if o.GetAnnotations()[corev1.ServiceAccountNameKey] == "" {
				return nil
			}
			return []controller.Request{handler.RequestFor(o)}
		})).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []controller.Request {
			var names []string
			for _, ref := range o.(*corev1.ServiceAccount).Secrets {
				names = append(names, ref.Name)
			}
			return requests(o.GetNamespace(), names)
		})).
		Watches(&corev1.Pod{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
				for _, req := range requests(e.Object.GetNamespace(), secretsOf(e.Object.(*corev1.Pod))) {
					q.Add(req)
				}
			},
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

func requests(namespace string, names []string) (all []controller.Request) {
	for _, name := range names {
		all = append(all, controller.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return all
}

// reconciler is the Reconciler of secrets. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	period time.Duration
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.client.Get(ctx, req.NamespacedName, meta, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	unused, ok := r.unusedFrom(meta)
	if !ok || meta.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	generated, err := r.generated(ctx, meta)
	if err != nil || !generated {
		return controller.Result{}, err
	}
	if pause := time.Until(unused); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	since, err := r.trackedSince(ctx)
	if err != nil {
		return controller.Result{}, err
	}
	if pause := time.Until(since.Add(r.period)); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	if mounted, err := r.mounted(ctx, req.NamespacedName); err != nil || mounted {
		return controller.Result{}, err
	}
	var secret corev1.Secret
	if err := r.live.Get(ctx, req.NamespacedName, &secret); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if secret.ResourceVersion != meta.ResourceVersion || secret.Type != corev1.SecretTypeServiceAccountToken {
		return controller.Result{}, nil // an event of the change follows
	}
	marked, err := time.Parse(time.DateOnly, secret.Labels[invalidSince])
	if err != nil {
		return controller.Result{}, r.mark(ctx, &secret)
	}
	if pause := time.Until(marked.Add(day + r.period)); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	err = r.client.Delete(ctx, &secret, client.Preconditions{ResourceVersion: &meta.ResourceVersion})
	if apierrors.IsConflict(err) {
		err = nil
	}
	return controller.Result{}, client.IgnoreNotFound(err)
}

// unusedFrom returns when a token will not have been used for the period; not if the label with the
// date of its use cannot be read.
func (r *reconciler) unusedFrom(secret client.Object) (time.Time, bool) {
	at := secret.GetCreationTimestamp().Add(r.period)
	text, used := secret.GetLabels()[lastUsed]
	if !used {
		return at, true
	}
	date, err := time.Parse(time.DateOnly, text)
	if last := date.Add(day + r.period); last.After(at) {
		at = last
	}
	return at, err == nil
}

// generated reports whether a token was made for its account, and not by a user: the account lists
// it.
func (r *reconciler) generated(ctx context.Context, secret client.Object) (bool, error) {
	var account corev1.ServiceAccount
	key := types.NamespacedName{Namespace: secret.GetNamespace(), Name: secret.GetAnnotations()[corev1.ServiceAccountNameKey]}
	if key.Name == "" {
		return false, nil
	}
	if err := r.client.Get(ctx, key, &account, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if uid := secret.GetAnnotations()[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(account.UID) {
		return false, nil
	}
	return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.GetName() }), nil
}

// trackedSince returns since when no use of a token is missed: the end of the day on which servers
// began to write it.
func (r *reconciler) trackedSince(ctx context.Context) (time.Time, error) {
	var m corev1.ConfigMap
	if err := r.live.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: tracking}, &m); err != nil {
		return time.Time{}, err
	}
	since, err := time.Parse(time.DateOnly, m.Data[sinceKey])
	if err != nil {
		return time.Time{}, fmt.Errorf("config map %s: %w", tracking, err)
	}
	return since.Add(day), nil
}

// mounted reports whether a pod uses a secret.
func (r *reconciler) mounted(ctx context.Context, secret types.NamespacedName) (bool, error) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(secret.Namespace), client.MatchingFields{bySecret: secret.Name}, client.UnsafeDisableDeepCopy)
	return len(pods.Items) > 0, err
}

// mark says that a token is invalid from now on.
func (r *reconciler) mark(ctx context.Context, secret *corev1.Secret) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:%q}}}`, secret.UID, invalidSince, time.Now().UTC().Format(time.DateOnly))
	return client.IgnoreNotFound(r.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch))))
}
