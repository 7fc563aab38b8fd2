// Package bootstrapsigner signs the config map cluster-info in kube-public with bootstrap tokens. A
// new node that has only a token reads cluster-info without credentials, and verifies with the
// signature of its token that the address and the authority in it are those of the cluster. An
// administrator, or kubeadm, creates the config map; this controller maintains its signatures.
//
// Each token in kube-system that is for signing and has not expired signs the key kubeconfig; the
// signature is the key jws-kubeconfig-ID. Signatures of other tokens are removed when a token
// expires, too: kube-controller-manager removes them at the next event.
//
// The package starts no goroutine.
package bootstrapsigner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/bootstraptoken"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	content         = "kubeconfig" // the signed key
	signaturePrefix = "jws-kubeconfig-"
)

// clusterInfo is the config map, and the only key of the controller.
var clusterInfo = client.ObjectKey{Namespace: metav1.NamespacePublic, Name: "cluster-info"}

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	enqueue := func(concerns func(client.Object) bool) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []controller.Request {
			if !concerns(o) {
				return nil
			}
			return []controller.Request{{NamespacedName: clusterInfo}}
		})
	}
	return controller.NewControllerManagedBy(m).Named("bootstrap-signer-controller").
		WatchesMetadata(&corev1.ConfigMap{}, enqueue(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == clusterInfo })).
		WatchesMetadata(&corev1.Secret{}, enqueue(func(o client.Object) bool { return o.GetNamespace() == bootstraptoken.Namespace })).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(&reconciler{client: m.GetClient(), live: m.GetAPIReader()})
}

// reconciler is the Reconciler of cluster-info. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache, which has only metadata
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var info corev1.ConfigMap
	if err := r.live.Get(ctx, req.NamespacedName, &info); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if _, ok := info.Data[content]; !ok || info.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	var tokens corev1.SecretList
	if err := r.live.List(ctx, &tokens, client.InNamespace(bootstraptoken.Namespace)); err != nil {
		return controller.Result{}, err
	}
	data, next, err := signed(info.Data, tokens.Items, time.Now())
	if err != nil {
		return controller.Result{}, err
	}
	if !maps.Equal(data, info.Data) {
		info.Data = data
		err := r.client.Update(ctx, &info)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // after both, an event follows
			return controller.Result{}, err
		}
	}
	return controller.Result{RequeueAfter: next}, nil
}

// signed returns the data of cluster-info with the signatures of the given tokens only, and the
// time until the first of them expires, zero for never.
func signed(old map[string]string, tokens []corev1.Secret, now time.Time) (data map[string]string, next time.Duration, err error) {
	data = maps.Clone(old)
	maps.DeleteFunc(data, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	for i := range tokens {
		id, private, ok := bootstraptoken.Signing(&tokens[i], now)
		if !ok {
			continue
		}
		if data[signaturePrefix+id], err = signature(old[content], id, private); err != nil {
			return nil, 0, err
		}
		if left, _ := bootstraptoken.Expires(&tokens[i], now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return data, next, nil
}

// signature returns the detached JWS (RFC 7515, appendix F) of a text with HMAC-SHA256 and the
// secret part of a token.
func signature(text, id, private string) (string, error) {
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}{"HS256", id})
	if err != nil {
		return "", fmt.Errorf("header of a signature: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	mac := hmac.New(sha256.New, []byte(private))
	fmt.Fprintf(mac, "%s.%s", encode(header), encode([]byte(text)))
	return encode(header) + ".." + encode(mac.Sum(nil)), nil
}
