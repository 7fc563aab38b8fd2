package resource_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// steps notes the steps of a write, and ends its context in one of them.
type steps struct {
	freeModel
	taken []string
	last  string
	end   context.CancelFunc
}

func (s *steps) step(name string) {
	s.taken = append(s.taken, name)
	if name == s.last {
		s.end()
	}
}

func (s *steps) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	s.step("decode")
	return s.freeModel.Decode(data, strict)
}

func (s *steps) Validate(context.Context, resource.Tree, resource.Tree, string) field.ErrorList {
	s.step("validate the model")
	return field.ErrorList{field.Required(field.NewPath("spec"), "")}
}

func (s *steps) Begin(*resource.Request, resource.Operation) resource.Admitter { return (*admitter)(s) }

type admitter steps

func (a *admitter) Mutate(context.Context, *resource.Admitted) error {
	(*steps)(a).step("mutate")
	return nil
}

func (a *admitter) Validate(context.Context, *resource.Admitted) error {
	(*steps)(a).step("validate")
	return nil
}

// TestWritesEndWithTheirClients ends the context of a write in one step after another: no later
// step is begun, and the errors that were found are not rendered.
func TestWritesEndWithTheirClients(t *testing.T) {
	for _, test := range []struct {
		last string
		want []string
	}{
		{"decode", []string{"decode"}},
		{"mutate", []string{"decode", "mutate"}},
		{"validate the model", []string{"decode", "mutate", "validate the model"}},
	} {
		for name, write := range map[string]func(context.Context, *resource.Store, *resource.Request) error{
			"create": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
				r.Name = ""
				_, err := s.Create(ctx, r, resource.Body{Data: []byte(widgetJSON("new", ""))})
				return err
			},
			"update": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
				_, err := s.Update(ctx, r, resource.Body{Data: []byte(widgetJSON("old", ""))})
				return err
			},
			"patch": func(ctx context.Context, s *resource.Store, r *resource.Request) error {
				_, err := s.Patch(ctx, r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"a":1}}`)})
				return err
			},
		} {
			t.Run(name+" "+test.last, func(t *testing.T) {
				b := newBench(t, state.Options{})
				b.mustCreate(b.request(""), widgetJSON("old", ""))
				before := b.State().Revision()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				seen := &steps{last: test.last, end: cancel}
				b.SetGate(resource.Gate{Admission: seen})
				definition, version := *b.widgets, *b.widgets.Storage
				version.Model = seen
				definition.Strategy.UnconditionalUpdate = true
				definition.Versions, definition.Storage = []*resource.Version{&version}, &version
				request := b.request("old")
				request.Definition, request.Version, request.User = &definition, &version, &authn.User{Name: "bob"}
				err := write(ctx, b.Store, request)
				want := test.want
				if name == "patch" { // which decodes no object of the kind
					want = want[1:]
					if test.last == "decode" {
						return
					}
				}
				if !errors.Is(err, context.Canceled) || !slices.Equal(seen.taken, want) {
					t.Errorf("%v after %v, want %v", err, seen.taken, want)
				}
				if after := b.State().Revision(); after != before {
					t.Errorf("revision %d, before %d", after, before)
				}
			})
		}
	}
}
