package controller

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
)

// A Request names the object that is to be reconciled.
type Request = handler.Request

// A Result says when an object is to be reconciled again, if nothing happens.
type Result struct {
	// RequeueAfter has it reconciled again after this time. 0: not before something happens.
	RequeueAfter time.Duration
	// Requeue has it reconciled again as after an error.
	//
	// Deprecated: return an error, or RequeueAfter.
	Requeue bool
	// Priority is that of the request when it comes again, after an error also. Default: the one that it had.
	Priority *int
}

// IsZero says that the result asks for nothing.
func (r *Result) IsZero() bool { return r == nil || *r == Result{} }

// A Reconciler makes the world as an object says, as far as it is not so.
type Reconciler interface {
	// Reconcile is called with the name of an object to which something may have happened: it may be gone. It is never called for
	// the same name by two goroutines at once.
	//
	// After an error, it is called again, after a time that grows with each, and the Result is ignored; after a TerminalError, it
	// is not. Without an error, it is called again as the Result says. When the controller stops, the context ends, and the
	// controller waits for what runs.
	//
	// It must not end its goroutine by runtime.Goexit, as testing.T.FailNow does: that ends a worker for good.
	Reconcile(context.Context, Request) (Result, error)
}

// Func is a Reconciler of a function.
type Func func(context.Context, Request) (Result, error)

// Reconcile implements Reconciler.
func (f Func) Reconcile(ctx context.Context, r Request) (Result, error) { return f(ctx, r) }

// An ObjectReconciler gets the object rather than its name.
type ObjectReconciler[T client.Object] interface {
	Reconcile(context.Context, T) (Result, error)
}

// AsReconciler makes a Reconciler that reads the object with c and gives it to r; one that is gone is none of its business.
// T is a pointer to a struct.
func AsReconciler[T client.Object](c client.Client, r ObjectReconciler[T]) Reconciler {
	return Func(func(ctx context.Context, request Request) (Result, error) {
		obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		if err := c.Get(ctx, request.NamespacedName, obj); err != nil {
			return Result{}, client.IgnoreNotFound(err)
		}
		return r.Reconcile(ctx, obj)
	})
}

// TerminalError wraps an error that trying again will not mend. It is logged and counted as others are.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ err error }

func (e *terminalError) Unwrap() error { return e.err }

func (e *terminalError) Error() string {
	if e.err == nil {
		return "nil terminal error"
	}
	return "terminal error: " + e.err.Error()
}

// Is has errors.Is(err, TerminalError(nil)) find any.
func (*terminalError) Is(target error) bool {
	_, ok := target.(*terminalError)
	return ok
}

func isTerminal(err error) bool {
	_, ok := errors.AsType[*terminalError](err)
	return ok
}
