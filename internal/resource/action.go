package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// action returns the action of a create; nil if it stores an object.
func (r *Request) action() *Action {
	if sub := r.Version.Subresource(r.Subresource); sub != nil {
		return sub.Action
	}
	return r.Definition.Action
}

// act runs an action. The body gets managed fields if the answer shows it, is admitted as a
// creation, and passed to the action.
func (s *Store) act(ctx context.Context, r *Request, action *Action, body Tree) (Result, error) {
	if err := ensureNamespace(r, body); err != nil {
		return Result{}, err
	}
	if _, err := s.namespaceAdmits(ctx, r, body, false); err != nil {
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

// Edit updates the current object on behalf of the field manager of the request; without one, no
// manager owns the changed fields. edit may change the tree; its error is returned unchanged.
func (s *Store) Edit(ctx context.Context, r *Request, edit func(live Tree) error) (Result, error) {
	return s.change(ctx, r, change{next: func(live Tree) (Tree, error) {
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
