package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Update replaces an object, or the part of it that a subresource shows.
func (s *Store) Update(ctx context.Context, r *Request, body Body) (Result, error) {
	obj, err := s.decode(ctx, r, body)
	if err != nil {
		return Result{}, err
	}
	if err := ensureIdentity(r, obj); err != nil {
		return Result{}, err
	}
	dedupOwners(r, obj, repeatedOwners)
	next := func(live Tree) (Tree, error) {
		if live == nil {
			live = blank(r.BodyModel())
		}
		return s.manageUpdate(ctx, r, live, runtime.DeepCopyJSON(obj))
	}
	if r.Subresource == scaleSubresource {
		return s.writeScale(ctx, r, metaString(obj, "uid"), next)
	}
	return s.change(ctx, r, change{
		uid:         metaString(obj, "uid"),
		allowCreate: r.Definition.Strategy.CreateOnUpdate && r.Subresource == "",
		next:        next,
	})
}

// A change derives the next object of a write from the live one. It is the difference between
// update, patch and apply, of objects and of subresources.
type change struct {
	uid         string // the object must have this uid; "" for any
	allowCreate bool   // the object is created where there is none
	// next returns the new object. It does not change live, which is nil if there is none, and shares
	// nothing with it but entries of managedFields, which no step changes. The resourceVersion of the
	// result is the one that the client expects; "" for any.
	next func(live Tree) (Tree, error)

	// view returns what the client sees of the object where that is an object of another kind: its
	// Scale. Then next and admission get the view, and put writes a view into the object. Nil where
	// the client sees the object itself.
	view func(obj Tree) (Tree, error)
	put  func(obj, view Tree) (Tree, error)
}

// shown returns what the client sees of an object.
func (c *change) shown(obj Tree) (Tree, error) {
	if c.view == nil {
		return obj, nil
	}
	return c.view(obj)
}

func (s *Store) change(ctx context.Context, r *Request, c change) (Result, error) {
	if err := checkName(r.Name); err != nil {
		return Result{}, err
	}
	return s.retry(ctx, r, func() (Result, error) {
		w := write{store: s, request: r, change: c}
		return w.run(ctx)
	})
}

// prepareUpdate restores the fields that the request may not write.
func prepareUpdate(r *Request, obj, old Tree) {
	generation, _ := metaInt(old, "generation")
	setGeneration(obj, generation)
	if sub := r.Version.Subresource(r.Subresource); sub != nil && sub.Prepare != nil {
		sub.Prepare(obj, old)
		return
	}
	if hook := r.Definition.Strategy.PrepareUpdate; hook != nil {
		hook(obj, old)
	}
}
