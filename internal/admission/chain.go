// Package admission is what may come in: it judges the writes of users beyond what
// the kinds themselves demand, and completes them.
//
// A [Chain] is a row of plugins, each a package of its own below this one, in the
// order of Kubernetes. First all that mutate see an object, one after another, and once
// more if one of them asks for it (see [resource.Passes]); it is prepared and validated
// as its kind demands; then all that validate see what is about to be stored. Requests
// of the server itself are not judged.
//
// A request that no plugin handles costs one question a plugin and nothing else.
// A Chain has no state and starts no goroutine.
package admission

import (
	"context"

	"github.com/kapok-dev/kapok/internal/resource"
)

// A Plugin has something to say about some requests. It is a [Mutator], a
// [Validator], or both, and safe for concurrent use.
type Plugin interface {
	// Handles says whether the plugin wants to see what a request writes. It is asked
	// of every write, and so it is quick and allocates nothing.
	Handles(r *resource.Request, op resource.Operation) bool
}

// A Mutator may change what is written. See [resource.Admitter].
type Mutator interface {
	Plugin
	Mutate(ctx context.Context, a *resource.Admitted) error
}

// A Validator may refuse what is written. See [resource.Admitter].
type Validator interface {
	Plugin
	Validate(ctx context.Context, a *resource.Admitted) error
}

// A Chain is plugins in their order. It implements [resource.Admission].
type Chain []Plugin

// Begin implements resource.Admission.
func (c Chain) Begin(r *resource.Request, op resource.Operation) resource.Admitter {
	var asked asked
	for _, p := range c {
		if p.Handles(r, op) {
			asked = append(asked, p)
		}
	}
	if asked == nil {
		return nil
	}
	return asked
}

// asked are the plugins that handle a request.
type asked []Plugin

// Mutate implements resource.Admitter. If a mutator wants it, all are asked a second time.
func (all asked) Mutate(ctx context.Context, a *resource.Admitted) error {
	err := all.mutate(ctx, a)
	if err == nil && a.Passes.Again {
		a.Passes.Second = true
		err = all.mutate(ctx, a)
	}
	return err
}

func (all asked) mutate(ctx context.Context, a *resource.Admitted) error {
	for _, p := range all {
		if m, ok := p.(Mutator); ok {
			if err := m.Mutate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate implements resource.Admitter.
func (all asked) Validate(ctx context.Context, a *resource.Admitted) error {
	for _, p := range all {
		if v, ok := p.(Validator); ok {
			if err := v.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}
