package builtin

import (
	"context"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// action is what a create of an object of the Go type B does.
func action[B any](gvk schema.GroupVersionKind, do func(ctx context.Context, s *resource.Store, r *resource.Request, body *B) (resource.Result, error)) *resource.Action {
	return &resource.Action{
		Kind:  gvk,
		Model: newModel[B](gvk, fill, nil, nil, gvk),
		Do: func(ctx context.Context, s *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			return do(ctx, s, r, decoded[B](body))
		},
	}
}
