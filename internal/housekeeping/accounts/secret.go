package accounts

import (
	"bytes"
	"context"
	"encoding/base64"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// keepSecret adds the token to a secret, or deletes the secret if its account is gone.
func (k *Keeper) keepSecret(ctx context.Context, key object.Key) error {
	o, _ := k.state.Get(key)
	if o == nil || o.Meta.Deleting() {
		return nil
	}
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	if tree["type"] != string(corev1.SecretTypeServiceAccountToken) {
		return nil
	}
	r, err := k.request(secrets, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	account, _ := k.state.Get(object.Key{Resource: accounts, Namespace: key.Namespace, Name: annotation(tree, corev1.ServiceAccountNameKey)})
	if uid := annotation(tree, corev1.ServiceAccountUIDKey); account == nil || uid != "" && uid != string(account.Meta.UID) {
		_, err := k.store.Delete(ctx, r, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.Meta.UID}})
		return err
	}
	if k.isFull(tree) {
		return nil
	}
	ref := serviceaccount.Ref{Name: account.Key.Name, UID: string(account.Meta.UID)}
	token, err := k.Issuer.IssueLegacy(key.Namespace, ref, key.Name)
	if err != nil {
		return err
	}
	_, err = k.store.Edit(ctx, r, func(live resource.Tree) error {
		if uid, _, _ := unstructured.NestedString(live, "metadata", "uid"); uid != string(o.Meta.UID) || annotation(live, corev1.ServiceAccountNameKey) != ref.Name {
			return nil // another event follows
		}
		if len(k.Authority) > 0 {
			set(live, corev1.ServiceAccountRootCAKey, k.Authority)
		}
		if len(datum(live, corev1.ServiceAccountNamespaceKey)) == 0 {
			set(live, corev1.ServiceAccountNamespaceKey, []byte(key.Namespace))
		}
		if len(datum(live, corev1.ServiceAccountTokenKey)) == 0 {
			set(live, corev1.ServiceAccountTokenKey, []byte(token))
		}
		return unstructured.SetNestedField(live, ref.UID, "metadata", "annotations", corev1.ServiceAccountUIDKey)
	})
	return err
}

// isFull reports whether a secret has all of its data.
func (k *Keeper) isFull(secret resource.Tree) bool {
	return len(datum(secret, corev1.ServiceAccountTokenKey)) > 0 && len(datum(secret, corev1.ServiceAccountNamespaceKey)) > 0 &&
		(len(k.Authority) == 0 || bytes.Equal(datum(secret, corev1.ServiceAccountRootCAKey), k.Authority))
}

func annotation(obj resource.Tree, key string) string {
	value, _, _ := unstructured.NestedString(obj, "metadata", "annotations", key)
	return value
}

// datum returns the decoded value of a secret's key; nil if it is absent or no base64.
func datum(secret resource.Tree, key string) []byte {
	text, _, _ := unstructured.NestedString(secret, "data", key)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

func set(secret resource.Tree, key string, value []byte) {
	data, _ := secret["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
		secret["data"] = data
	}
	data[key] = base64.StdEncoding.EncodeToString(value)
}
