package server

import (
	"errors"
	"slices"
)

// closers is a stack of functions that each close a part that has been started. It is not safe for
// concurrent use.
type closers []func() error

// add pushes a function that may fail.
func (c *closers) add(f func() error) { *c = append(*c, f) }

// do pushes a function that cannot fail.
func (c *closers) do(f func()) { c.add(func() error { f(); return nil }) }

// close calls all functions, the last one first, and returns their errors. A second call does
// nothing.
func (c *closers) close() error {
	all := *c
	*c = nil
	var errs []error
	for _, f := range slices.Backward(all) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
