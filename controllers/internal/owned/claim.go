// Package owned handles the objects that a controller owns: it adopts and releases objects by a
// selector, finds them by an index of the cache, and maps their events to requests for their owner.
//
// It starts no goroutine and has no locks.
package owned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Claim is an owner that adopts objects without a controller which its selector matches, and
// releases its own ones which it no longer matches.
type Claim[T client.Object] struct {
	Client client.Client
	// Live reads from the server. Before the first adoption it confirms that the owner still exists
	// and is not being deleted: the cache may not know that yet, and the garbage collector must not
	// find a new dependent of an owner that it has finished.
	Live     client.Reader
	Owner    client.Object
	Kind     schema.GroupVersionKind
	Selector labels.Selector
	// Accepts limits adoption and ownership further. Default: all objects.
	Accepts func(T) bool
	// Finalizers are added to adopted objects, and removed from released ones.
	Finalizers []string

	checked bool
	gone    error // why nothing can be adopted
}

// All claims objects, and returns those that the owner has now. It goes on after an error; the
// error joins all of them. Objects that no longer exist are no errors. A Claim serves one call of
// All.
func (c *Claim[T]) All(ctx context.Context, objects []T) (mine []T, err error) {
	var errs []error
	for _, o := range objects {
		ok, err := c.one(ctx, o)
		if err != nil {
			errs = append(errs, err)
		} else if ok {
			mine = append(mine, o)
		}
	}
	return mine, errors.Join(errs...)
}

func (c *Claim[T]) one(ctx context.Context, o T) (mine bool, err error) {
	matches := c.Selector.Matches(labels.Set(o.GetLabels())) && (c.Accepts == nil || c.Accepts(o))
	deleted := c.Owner.GetDeletionTimestamp() != nil
	if by := metav1.GetControllerOfNoCopy(o); by != nil {
		switch {
		case by.UID != c.Owner.GetUID():
			return false, nil
		case matches:
			return true, nil
		case deleted:
			return false, nil
		}
		return false, c.release(ctx, o)
	}
	if deleted || !matches || o.GetDeletionTimestamp() != nil {
		return false, nil
	}
	if err := c.adopt(ctx, o); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}

// adopt returns a "not found" error if o no longer exists.
func (c *Claim[T]) adopt(ctx context.Context, o T) error {
	if err := c.check(ctx); err != nil {
		return fmt.Errorf("can't adopt %s: %w", describe(o), err)
	}
	ref := metav1.NewControllerRef(c.Owner, c.Kind)
	return c.patch(ctx, o, map[string]any{"ownerReferences": []any{ref}}, c.Finalizers)
}

// check returns an error if the owner does not exist any more, or is being deleted.
func (c *Claim[T]) check(ctx context.Context) error {
	if c.checked {
		return c.gone
	}
	c.checked = true
	c.gone = func() error {
		live := c.Owner.DeepCopyObject().(client.Object)
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(c.Owner), live); err != nil {
			return err
		}
		if live.GetUID() != c.Owner.GetUID() {
			return fmt.Errorf("original %s %s is gone: got uid %v, wanted %v", c.Kind.Kind, describe(c.Owner), live.GetUID(), c.Owner.GetUID())
		}
		if at := live.GetDeletionTimestamp(); at != nil {
			return fmt.Errorf("%s has just been deleted at %v", describe(c.Owner), at)
		}
		return nil
	}()
	return c.gone
}

func (c *Claim[T]) release(ctx context.Context, o T) error {
	remove := map[string]any{"$patch": "delete", "uid": c.Owner.GetUID()}
	metadata := map[string]any{"ownerReferences": []any{remove}}
	if len(c.Finalizers) > 0 {
		metadata["$deleteFromPrimitiveList/finalizers"] = c.Finalizers
	}
	err := c.patch(ctx, o, metadata, nil)
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // invalid: another object has the name now
		return nil
	}
	return err
}

// patch changes metadata of the object with this uid.
func (c *Claim[T]) patch(ctx context.Context, o T, metadata map[string]any, finalizers []string) error {
	metadata["uid"] = o.GetUID()
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, data))
}

func describe(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }
