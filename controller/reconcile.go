package controller

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
)

// A Request is the key of the object to reconcile.
type Request = handler.Request

// A Result schedules the next reconciliation of an object. The zero value means at its next event.
type Result struct {
	// RequeueAfter reconciles the object again after this time. Default 0: not before its next
	// event.
	RequeueAfter time.Duration
	// Requeue reconciles the object again with the backoff of an error.
	//
	// Deprecated: return an error, or RequeueAfter.
	Requeue bool
	// Priority is the priority of the request when it is added again, also after an error. Default:
	// unchanged.
	Priority *int
}

// IsZero reports whether the result requests nothing.
func (r *Result) IsZero() bool { return r == nil || *r == Result{} }

type (
	// A Reconciler is a TypedReconciler whose requests are keys of objects.
	Reconciler = TypedReconciler[Request]
	// Func is a function as a Reconciler.
	Func = TypedFunc[Request]
)

// A TypedReconciler brings the cluster to the state that objects describe. Its requests are of any
// comparable type: handlers add them to the queue of the controller, which drops a request that is
// equal to a queued one.
type TypedReconciler[request comparable] interface {
	// Reconcile is called after an event for an object, which may no longer exist. It is never
	// called concurrently for the same request.
	//
	// An error retries the request with backoff, and the Result is ignored. A TerminalError is not
	// retried. Without an error the Result schedules the next call. When the controller stops, ctx
	// ends, and the controller waits for running calls.
	//
	// Reconcile must not call runtime.Goexit, as testing.T.FailNow does: that ends a worker
	// permanently.
	Reconcile(context.Context, request) (Result, error)
}

// TypedFunc is a function as a TypedReconciler.
type TypedFunc[request comparable] func(context.Context, request) (Result, error)

// Reconcile implements TypedReconciler.
func (f TypedFunc[request]) Reconcile(ctx context.Context, r request) (Result, error) {
	return f(ctx, r)
}

// An ObjectReconciler receives the object instead of its key.
type ObjectReconciler[T client.Object] interface {
	Reconcile(context.Context, T) (Result, error)
}

// AsReconciler returns a Reconciler that reads the object with c and passes it to r. It does not
// call r for an object that does not exist. T is a pointer to a struct.
func AsReconciler[T client.Object](c client.Client, r ObjectReconciler[T]) Reconciler {
	return Func(func(ctx context.Context, request Request) (Result, error) {
		obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		if err := c.Get(ctx, request.NamespacedName, obj); err != nil {
			return Result{}, client.IgnoreNotFound(err)
		}
		return r.Reconcile(ctx, obj)
	})
}

// TerminalError wraps an error that a retry cannot fix. It is logged and counted like other errors.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ err error }

func (e *terminalError) Unwrap() error { return e.err }

func (e *terminalError) Error() string {
	if e.err == nil {
		return "nil terminal error"
	}
	return "terminal error: " + e.err.Error()
}

// Is makes errors.Is(err, TerminalError(nil)) match every terminal error.
func (*terminalError) Is(target error) bool {
	_, ok := target.(*terminalError)
	return ok
}

func isTerminal(err error) bool {
	_, ok := errors.AsType[*terminalError](err)
	return ok
}
