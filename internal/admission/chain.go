// Package admission validates and completes the writes of users beyond the validation of the kinds.
//
// A [Chain] is a list of plugins in the order of Kubernetes, each of which has a package below this
// one. First all mutators see an object, and once more if one of them requests it (see
// [resource.Passes]); the kind prepares and validates the object; then all validators see the
// object that is about to be stored. Requests of the server itself bypass admission.
//
// A request that no plugin handles costs one call of Handles for each plugin. A Chain has no state,
// starts no goroutine, and is safe for concurrent use.
package admission

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"
)

// A Plugin handles some requests. It is a [Mutator], a [Validator], or both, and safe for
// concurrent use.
type Plugin interface {
	// Handles reports whether the plugin admits the request. It is called for every write, and so
	// it must be fast and not allocate.
	Handles(r *resource.Request, op resource.Operation) bool
}

// A Mutator may change the object. See [resource.Admitter].
type Mutator interface {
	Plugin
	Mutate(ctx context.Context, a *resource.Admitted) error
}

// A Validator may reject the object. See [resource.Admitter].
type Validator interface {
	Plugin
	Validate(ctx context.Context, a *resource.Admitted) error
}

// A Chain is a list of plugins in order. It implements [resource.Admission].
type Chain []Plugin

// Begin implements resource.Admission.
func (c Chain) Begin(r *resource.Request, op resource.Operation) resource.Admitter {
	return c.begin(r, op, nil)
}

// begin returns the Admitter, whose steps are timed unless m is nil.
func (c Chain) begin(r *resource.Request, op resource.Operation, m *Metrics) resource.Admitter {
	var all []Plugin
	for _, p := range c {
		if p.Handles(r, op) {
			all = append(all, p)
		}
	}
	if all == nil {
		return nil
	}
	return &asked{all, m}
}

// asked are the plugins that handle a request.
type asked struct {
	plugins []Plugin
	metrics *Metrics // nil for none
}

// Mutate implements resource.Admitter. It runs all mutators a second time if one of them requests
// it.
func (q *asked) Mutate(ctx context.Context, a *resource.Admitted) error {
	begun := time.Now()
	err := q.mutate(ctx, a)
	if err == nil && a.Passes.Again {
		a.Passes.Second = true
		err = q.mutate(ctx, a)
	}
	q.metrics.step(admits, a.Operation, begun, err)
	return err
}

func (q *asked) mutate(ctx context.Context, a *resource.Admitted) error {
	for _, p := range q.plugins {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m, ok := p.(Mutator); ok {
			if err := m.Mutate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate implements resource.Admitter.
func (q *asked) Validate(ctx context.Context, a *resource.Admitted) error {
	begun := time.Now()
	err := q.validate(ctx, a)
	q.metrics.step(validates, a.Operation, begun, err)
	return err
}

func (q *asked) validate(ctx context.Context, a *resource.Admitted) error {
	for _, p := range q.plugins {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v, ok := p.(Validator); ok {
			if err := v.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}
