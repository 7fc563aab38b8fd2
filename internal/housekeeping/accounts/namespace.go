package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// keepAccount creates the account default of a namespace if it does not exist.
func (k *Keeper) keepAccount(ctx context.Context, namespace string) error {
	if o, _ := k.state.Get(object.Key{Resource: accounts, Namespace: namespace, Name: defaultAccount}); o != nil || k.NoAccounts {
		return nil
	}
	return k.create(ctx, accounts, namespace, resource.Tree{"metadata": resource.Tree{"name": defaultAccount}})
}

// The annotation of the config map with the authority. The key is Kubernetes'.
const (
	descriptionKey = "kubernetes.io/description"
	description    = "The authority that has signed the certificate of the API server at kubernetes.default.svc, and is good for nothing else."
)

// keepAuthority creates the config map with the authority of the server, or reverts changes of it.
func (k *Keeper) keepAuthority(ctx context.Context, namespace string) error {
	if len(k.Authority) == 0 {
		return nil
	}
	data := map[string]any{"ca.crt": string(k.Authority)}
	o, _ := k.state.Get(object.Key{Resource: configMaps, Namespace: namespace, Name: rootAuthority})
	if o == nil {
		return k.create(ctx, configMaps, namespace, resource.Tree{
			"metadata": resource.Tree{"name": rootAuthority, "annotations": resource.Tree{descriptionKey: description}},
			"data":     data,
		})
	}
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	if kept(tree, data) {
		return nil
	}
	r, err := k.request(configMaps, namespace, rootAuthority)
	if err != nil {
		return err
	}
	_, err = k.store.Edit(ctx, r, func(live resource.Tree) error {
		live["data"] = maps.Clone(data)
		if !described(live) {
			return unstructured.SetNestedField(live, description, "metadata", "annotations", descriptionKey)
		}
		return nil
	})
	return err
}

func kept(tree resource.Tree, data map[string]any) bool {
	has, _ := tree["data"].(map[string]any)
	return object.Equal(has, data) && described(tree)
}

func described(tree resource.Tree) bool {
	text, _, _ := unstructured.NestedString(tree, "metadata", "annotations", descriptionKey)
	return text != ""
}

func (k *Keeper) create(ctx context.Context, gr schema.GroupResource, namespace string, obj resource.Tree) error {
	r, err := k.request(gr, namespace, "")
	if err != nil {
		return err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("create %s in %s: %w", gr, namespace, err)
	}
	_, err = k.store.Create(ctx, r, resource.Body{Data: body})
	return err
}
