package owned

import (
	"context"
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	byController = "kapok.dev/controller"
	none         = "none"
)

// Index indexes the kind of obj by controller, for List. Controllers that share a manager may each
// call it.
func Index(m manager.Manager, obj client.Object) error {
	err := m.GetFieldIndexer().IndexField(context.Background(), obj, byController, func(o client.Object) []string {
		if by := metav1.GetControllerOfNoCopy(o); by != nil {
			return []string{string(by.UID)}
		}
		return []string{none}
	})
	if errors.Is(err, cache.ErrIndexExists) {
		return nil
	}
	return err
}

// List lists into list the objects of a namespace that the object with this uid controls. It may
// share them with the cache: they must not be changed.
func List(ctx context.Context, r client.Reader, list client.ObjectList, namespace string, owner types.UID) error {
	return r.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{byController: string(owner)}, client.UnsafeDisableDeepCopy)
}

// ListOrphans lists into list the objects of a namespace that have no controller, as List.
func ListOrphans(ctx context.Context, r client.Reader, list client.ObjectList, namespace string) error {
	return r.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{byController: none}, client.UnsafeDisableDeepCopy)
}

// Pointers returns pointers to the items of a list.
func Pointers[T any](lists ...[]T) (all []*T) {
	for _, items := range lists {
		all = slices.Grow(all, len(items))
		for i := range items {
			all = append(all, &items[i])
		}
	}
	return all
}
