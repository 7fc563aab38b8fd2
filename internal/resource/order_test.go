package resource_test

import (
	"context"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// valid is steps whose objects are all valid.
type valid struct{ steps }

func (v *valid) Validate(context.Context, resource.Tree, resource.Tree, string) field.ErrorList {
	v.step("validate the model")
	return nil
}

// TestOrder: all verbs that store an object take the same steps in the same order, and no step
// twice.
func TestOrder(t *testing.T) {
	for name, write := range map[string]func(context.Context, *resource.Store, *resource.Request) error{
		"create": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
			r.Name = ""
			_, err := s.Create(ctx, r, resource.Body{Data: []byte(widgetJSON("new", ""))})
			return err
		},
		"update": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
			_, err := s.Update(ctx, r, resource.Body{Data: []byte(widgetJSON("old", `,"spec":{"a":1}`))})
			return err
		},
		"patch": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
			_, err := s.Patch(ctx, r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"a":1}}`)})
			return err
		},
		"put that creates": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
			r.Name = "new"
			_, err := s.Update(ctx, r, resource.Body{Data: []byte(widgetJSON("new", ""))})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, state.Options{})
			b.mustCreate(b.request(""), widgetJSON("old", ""))
			seen := &valid{}
			prepared := func() { seen.step("prepare") }
			b.SetGate(resource.Gate{
				Admission: seen,
				PermitCreate: func(context.Context, *resource.Request) error {
					seen.step("permit to create")
					return nil
				},
				Claim: func(*resource.Claims, *resource.Request, resource.Tree, resource.Tree) error {
					seen.step("claim")
					return nil
				},
			})
			definition, version := *b.widgets, *b.widgets.Storage
			version.Model = seen
			definition.Strategy = resource.Strategy{
				UnconditionalUpdate: true, CreateOnUpdate: true,
				Permit: func(context.Context, *resource.Store, *resource.Request, resource.Tree, resource.Tree) error {
					seen.step("permit")
					return nil
				},
				PrepareCreate: func(resource.Tree) { prepared() },
				PrepareUpdate: func(resource.Tree, resource.Tree) { prepared() },
			}
			definition.Versions, definition.Storage = []*resource.Version{&version}, &version
			request := b.request("old")
			request.Definition, request.Version, request.User = &definition, &version, &authn.User{Name: "bob"}
			if err := write(t.Context(), b.Store, request); err != nil {
				t.Fatal(err)
			}
			want := []string{"decode", "mutate", "permit", "prepare", "validate the model", "validate", "claim"}
			switch name {
			case "patch": // which decodes no object of the kind
				want = want[1:]
			case "put that creates":
				want = slices.Insert(want, 5, "permit to create")
			}
			if !slices.Equal(seen.taken, want) {
				t.Errorf("took %v, want %v", seen.taken, want)
			}
		})
	}
}
