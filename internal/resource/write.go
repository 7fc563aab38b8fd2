package resource

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errConflict says that somebody else has written in between: the write starts
// again from what is there now.
var errConflict = errors.New("object has changed")

// append commits one write. o is nil for a deletion. It returns errConflict if
// the key, or a guard, is no longer what the write started from.
func (s *Store) append(ctx context.Context, key object.Key, prev *object.Object, o *object.Object, guards ...journal.Guard) error {
	entry := journal.Entry{Key: key, Object: o}
	if prev != nil {
		entry.Prev = prev.Revision
	}
	_, err := s.state.Append(ctx, journal.Batch{Entries: []journal.Entry{entry}, Guards: guards})
	return writeError(err)
}

// writeError words the errors of the journal for clients.
func writeError(err error) error {
	var conflict *journal.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		return errConflict
	case errors.Is(err, journal.ErrUnknown):
		return apierrors.NewTimeoutError("the outcome of the write is unknown: "+err.Error(), 1)
	case errors.Is(err, journal.ErrUnavailable), errors.Is(err, journal.ErrClosed):
		return apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return apierrors.NewInternalError(err)
}

// retry runs a write until it no longer meets another one.
func retry(ctx context.Context, write func() (Result, error)) (Result, error) {
	for {
		result, err := write()
		if !errors.Is(err, errConflict) {
			return result, err
		}
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
	}
}
