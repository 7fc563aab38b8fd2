package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// action is what the request does if it creates; nil if that is to store an object.
func (r *Request) action() *Action {
	if sub := r.Version.Subresource(r.Subresource); sub != nil {
		return sub.Action
	}
	return r.Definition.Action
}

func (s *Store) act(ctx context.Context, r *Request, action *Action, body Tree) (Result, error) {
	if err := ensureNamespace(r, body); err != nil {
		return Result{}, err
	}
	if _, err := s.admitToNamespace(r, body); err != nil {
		return Result{}, err
	}
	if action.Managed {
		managed, err := s.manageUpdate(ctx, r, blank(r.BodyModel()), body)
		if err != nil {
			return Result{}, err
		}
		body = managed
	}
	attempt := s.attempt(r, OperationCreate, nil)
	body, err := attempt.mutate(ctx, body)
	if err != nil {
		return Result{}, err
	}
	if err := attempt.validate(ctx, body); err != nil {
		return Result{}, err
	}
	return action.Do(ctx, s, r, body)
}

// Edit changes an object as an update would that starts from what is there, on
// behalf of the manager of the request; if there is none, nobody comes to own what has
// changed. edit gets a tree that is its own to change;
// its error is returned as it is.
func (s *Store) Edit(ctx context.Context, r *Request, edit func(live Tree) error) (Result, error) {
	return s.change(ctx, r, change{apply: func(live Tree) (Tree, error) {
		obj := runtime.DeepCopyJSON(live)
		if err := edit(obj); err != nil {
			return nil, err
		}
		if r.Manager == "" {
			return obj, nil
		}
		return s.manageUpdate(ctx, r, live, obj)
	}})
}
