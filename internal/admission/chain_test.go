package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
)

// A plugin records its calls.
type plugin struct {
	name  string
	log   *[]string
	skips bool
	fails error
}

func (p plugin) Handles(*resource.Request, resource.Operation) bool { return !p.skips }

func (p plugin) Mutate(context.Context, *resource.Admitted) error {
	*p.log = append(*p.log, "mutate "+p.name)
	return p.fails
}

func (p plugin) Validate(context.Context, *resource.Admitted) error {
	*p.log = append(*p.log, "validate "+p.name)
	return p.fails
}

func TestChain(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		name string
		make func(log *[]string) admission.Chain
		err  error
		want []string // nil: no plugin is called
	}{
		{name: "empty", make: func(*[]string) admission.Chain { return nil }},
		{name: "no plugin handles it", make: func(log *[]string) admission.Chain { return admission.Chain{plugin{name: "a", log: log, skips: true}} }},
		{name: "in order", make: func(log *[]string) admission.Chain {
			return admission.Chain{plugin{name: "a", log: log}, plugin{name: "b", log: log, skips: true}, plugin{name: "c", log: log}}
		}, want: []string{"mutate a", "mutate c", "validate a", "validate c"}},
		{name: "the first refusal counts", err: refused, make: func(log *[]string) admission.Chain {
			return admission.Chain{plugin{name: "a", log: log, fails: refused}, plugin{name: "b", log: log}}
		}, want: []string{"mutate a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log []string
			by := tc.make(&log).Begin(&resource.Request{}, resource.OperationCreate)
			if (by == nil) != (tc.want == nil) {
				t.Fatalf("got %v", by)
			}
			if by == nil {
				return
			}
			err := by.Mutate(t.Context(), &resource.Admitted{})
			if err == nil {
				err = by.Validate(t.Context(), &resource.Admitted{})
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("got error %v", err)
			}
			if !slices.Equal(log, tc.want) {
				t.Errorf("got %q, want %q", log, tc.want)
			}
		})
	}
}

// again requests a second pass in each pass.
type again struct{ plugin }

func (p again) Mutate(ctx context.Context, a *resource.Admitted) error {
	if a.Passes.Second {
		p.name += fmt.Sprintf(" %v", a.Passes.Note("key"))
	}
	a.Passes.Again = true
	a.Passes.SetNote("key", "once more")
	return p.plugin.Mutate(ctx, a)
}

// TestSecondPass checks that all mutators run a second time if one of them requests it, and not a
// third time.
func TestSecondPass(t *testing.T) {
	var log []string
	chain := admission.Chain{plugin{name: "a", log: &log}, again{plugin{name: "b", log: &log}}, plugin{name: "c", log: &log}}
	err := chain.Begin(&resource.Request{}, resource.OperationCreate).Mutate(t.Context(), &resource.Admitted{})
	want := []string{"mutate a", "mutate b", "mutate c", "mutate a", "mutate b once more", "mutate c"}
	if err != nil || !slices.Equal(log, want) {
		t.Errorf("got %q, %v, want %q", log, err, want)
	}
}
