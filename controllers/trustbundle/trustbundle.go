// Package trustbundle publishes the certificate authority of the API server as a ClusterTrustBundle
// of the signer kubernetes.io/kube-apiserver-serving. Its name has a hash of the authority; other
// bundles of the signer are deleted.
//
// The package starts no goroutine.
package trustbundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const signer = "kubernetes.io/kube-apiserver-serving"

const (
	// published is the config map with the authority, which every cluster has.
	published = "kube-root-ca.crt"
	// attempts is the number of times that a missing config map is looked for, a second apart: a
	// server publishes it after its start, or never.
	attempts = 10
)

// Options configure the controller.
type Options struct {
	// CA is the authority in PEM. Default: that of the configuration of the manager, or of the config
	// map kube-root-ca.crt in kube-system if the configuration has none. Without an authority, the
	// controller does nothing.
	CA []byte
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	cfg := m.GetConfig()
	if o.CA == nil {
		o.CA = cfg.CAData
	}
	if o.CA == nil && cfg.CAFile != "" {
		var err error
		if o.CA, err = os.ReadFile(cfg.CAFile); err != nil {
			return err
		}
	}
	one := controller.Request{NamespacedName: client.ObjectKey{Name: signer}}
	return controller.NewControllerManagedBy(m).Named("kube-apiserver-serving-clustertrustbundle-publisher-controller").
		Watches(&certificatesv1.ClusterTrustBundle{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []controller.Request {
			if o.(*certificatesv1.ClusterTrustBundle).Spec.SignerName != signer {
				return nil
			}
			return []controller.Request{one}
		})).
		WatchesRawSource(controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
			q.Add(one)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(&reconciler{client: m.GetClient(), live: m.GetAPIReader(), ca: string(o.CA)})
}

// reconciler is the Reconciler of all bundles of the signer. One call runs at a time.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	ca     string
	missed int // the number of attempts that did not find the config map
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, _ controller.Request) (controller.Result, error) {
	if r.ca == "" {
		again, err := r.load(ctx)
		if err != nil || r.ca == "" {
			return controller.Result{RequeueAfter: again}, err
		}
	}
	name := nameOf(r.ca)
	var b certificatesv1.ClusterTrustBundle
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, &b)
	switch {
	case apierrors.IsNotFound(err):
		err = r.client.Create(ctx, &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: r.ca},
		})
	case err == nil && b.Spec.TrustBundle != r.ca:
		b.Spec.TrustBundle = r.ca
		err = r.client.Update(ctx, &b)
	}
	if err != nil {
		return controller.Result{}, err
	}
	return controller.Result{}, r.deleteOthers(ctx, name)
}

// load reads the authority from the config map. It returns when to try again if there is none.
func (r *reconciler) load(ctx context.Context) (again time.Duration, err error) {
	var m corev1.ConfigMap
	err = r.live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: published}, &m)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if r.ca = m.Data["ca.crt"]; r.ca != "" || r.missed == attempts {
		return 0, nil
	}
	r.missed++
	return time.Second, nil
}

// deleteOthers deletes the bundles of the signer with other names.
func (r *reconciler) deleteOthers(ctx context.Context, name string) error {
	var list certificatesv1.ClusterTrustBundleList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.SignerName == signer && o.Name != name {
			gone := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
			errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, gone)))
		}
	}
	return errors.Join(errs...)
}

// nameOf returns the name of the bundle of an authority.
func nameOf(ca string) string {
	hash := sha256.Sum256([]byte(ca))
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), hash[:12])
}
