package kind

import (
	"context"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action returns the action that a create of an object of P's type runs. defaults may be nil.
func Action[P runtime.Object](gvk schema.GroupVersionKind, defaults func(P), do func(ctx context.Context, s *resource.Store, r *resource.Request, body P) (resource.Result, error)) *resource.Action {
	return &resource.Action{
		Kind:  gvk,
		Model: NewModel(gvk, defaults, nil, gvk),
		Do: func(ctx context.Context, s *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			return do(ctx, s, r, decoded[P](body))
		},
	}
}
