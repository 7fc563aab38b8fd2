package schema

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// ending is a context that ends after a number of calls of its Err.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestValidationEnds checks that validation of 100,000 errors stops when the context ends.
func TestValidationEnds(t *testing.T) {
	numbers := make([]any, 100_000)
	for i := range numbers {
		numbers[i] = int64(-i)
	}
	const bounded = `{"type":"object","properties":{"spec":{"type":"array","items":{"type":"integer","minimum":1}}}}`
	const alternatives = `{"type":"object","properties":{"spec":{"type":"array","items":{"anyOf":[{"minimum":1},{"minimum":2}]}}}}`
	obj, old := map[string]any{"spec": numbers}, map[string]any{"spec": []any{}}
	for name, schema := range map[string]string{"rules": bounded, "alternatives": alternatives} {
		p := mustCompile(t, parseSchema(t, schema))
		for verb, validate := range map[string]func(context.Context) int{
			"create": func(ctx context.Context) int { return len(p.Validate(ctx, obj)) },
			"update": func(ctx context.Context) int { return len(p.ValidateUpdate(ctx, obj, old)) },
		} {
			if all := validate(t.Context()); all < len(numbers) {
				t.Fatalf("%s, %s: %d errors", name, verb, all)
			}
			if some := validate(&ending{t.Context(), 2}); some > 1000 {
				t.Errorf("%s, %s: %d errors with a context that ends", name, verb, some)
			}
		}
	}
}

// TestEvaluationEnds checks that no conditions are evaluated after the context has ended.
func TestEvaluationEnds(t *testing.T) {
	p := mustCompile(t, parseSchema(t, `{"type":"object","properties":{"spec":{"type":"array","maxItems":100,"items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 0"}]}}}}`))
	spec := make([]any, 100)
	for i := range spec {
		spec[i] = int64(-1)
	}
	obj := map[string]any{"spec": spec}
	if n := len(p.Evaluate(t.Context(), obj, nil, nil, nil)); n != len(spec) {
		t.Fatalf("%d errors", n)
	}
	if n := len(p.Evaluate(&ending{t.Context(), 20}, obj, nil, nil, nil)); n == 0 || n > 20 {
		t.Errorf("%d errors with a context that ends", n)
	}
}

// TestLoopsEnd checks that two nested loops in a condition stop when the context ends.
func TestLoopsEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	list := make([]int64, 400)
	in := &expression.Variables{Self: types.DefaultTypeAdapter.NativeToValue(list)}
	scope := expression.NewScope(apiservercel.NewListType(apiservercel.IntType, -1))
	for name, text := range map[string]string{
		"plan":    `self.all(x, self.all(y, x == y))`,
		"program": `self.all(x, self.all(y, x == y)) && self.sum() == 0`, // sum is no standard function
	} {
		e, err := scope.Condition(text, false)
		if err != nil {
			t.Fatal(err)
		}
		v, whole, err := e.Eval(t.Context(), in)
		if err != nil || v != types.True || whole < 400*400 || whole > celconfig.PerCallLimit {
			t.Fatalf("%s: %v, cost %d, %v", name, v, whole, err)
		}
		if _, part, err := e.Eval(ended, in); err == nil || part > whole/100 {
			t.Errorf("%s: cost %d of %d with a context that ends, %v", name, part, whole, err)
		}
	}
}
