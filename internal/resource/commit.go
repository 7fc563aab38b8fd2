package resource

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/tracing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errConflict says that another write has changed the object: the write starts again from the
// current one.
var errConflict = errors.New("object has changed")

// maxStored bounds the encoded size of one object, in bytes. It is etcd's limit for a request, its
// flag --max-request-bytes, minus the overhead of a transaction; the key of the object occurs in it
// three times.
const maxStored = 1536<<10 - 128

// ErrReplaced is returned by writes with Request.Exact if their resource has got another
// definition. Nothing has been written.
var ErrReplaced = errors.New("the definition of the resource has changed")

// append commits one write with its claims, which may be nil. o is nil for a deletion. It returns
// errConflict if the object at key, a claim, or the object of Request.While has changed since the
// write started.
func (s *Store) append(ctx context.Context, r *Request, key object.Key, prev *object.Object, o *object.Object, claims *Claims) error {
	// The live object has been read already. As long as the definition is the served one, no other
	// write can have stored that object under a newer definition.
	if r.Exact && s.registry.Load().Replaced(r.Definition) {
		return final{ErrReplaced}
	}
	entry := journal.Entry{Key: key, Object: o}
	if prev != nil {
		entry.Prev = prev.Revision
	}
	names := len(key.Resource.Group) + len(key.Resource.Resource) + len(key.Namespace) + len(key.Name)
	if o != nil && len(o.Raw)+3*names > maxStored {
		return writeError(journal.ErrTooLarge)
	}
	batch := journal.Batch{Entries: []journal.Entry{entry}}
	if claims != nil {
		batch.Entries, batch.Guards = append(batch.Entries, claims.entries...), claims.guards
	}
	held, err := s.holding(r)
	if err != nil {
		return err
	}
	batch.Guards = append(batch.Guards, held...)
	ctx, span := tracing.Start(ctx, "Commit")
	_, err = s.state.Append(ctx, batch)
	tracing.End(span, err)
	return writeError(err)
}

// writeError returns the error for clients for one of the journal.
func writeError(err error) error {
	var conflict *journal.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		return errConflict
	case errors.Is(err, journal.ErrTooLarge):
		return final{errors.New("etcdserver: request is too large")} // the words that clients know
	case errors.Is(err, journal.ErrUnknown):
		return final{apierrors.NewTimeoutError("the outcome of the write is unknown: "+err.Error(), 0)}
	case errors.Is(err, journal.ErrFull):
		return final{full(err)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return final{err}
	}
	return final{unavailable(err)}
}

// unavailable returns the error for clients for a journal that accepts no writes, or does not know
// the writes of other servers.
func unavailable(err error) error {
	if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrClosed) {
		return apierrors.NewInternalError(err)
	}
	status := apierrors.NewServiceUnavailable(err.Error())
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return status
}

func full(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInsufficientStorage,
		Reason:  "InsufficientStorage",
		Message: fmt.Sprintf("nothing was written: %v", err),
	}}
}

// final is an error from the commit of a write, which a retry on a newer state cannot change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// retry runs a write until no other write interferes with it.
//
// Where several servers write, the state that a write starts from may lack writes that other
// servers have acknowledged. The journal refuses to commit on top of such a state. A write that
// fails, or changes nothing, without a commit is retried once on a state that is known to be new
// enough.
func (s *Store) retry(ctx context.Context, r *Request, write func() (Result, error)) (Result, error) {
	synced := false
	for {
		before := s.state.Revision()
		if r.Name != "" {
			if err := s.readable(r); err != nil {
				return Result{}, err
			}
		}
		result, err := write()
		switch {
		case errors.Is(err, errConflict):
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			continue
		case synced, err == nil && result.committed, errors.As(err, new(final)):
			return result, err
		}
		shared, syncErr := s.state.Sync(ctx)
		if syncErr != nil {
			return Result{}, readError(syncErr)
		}
		if r.Name != "" {
			if err := s.readable(r); err != nil {
				return Result{}, err
			}
		}
		if !shared || s.state.Revision() == before {
			return result, err // nothing was newer than what it looked at
		}
		synced = true
	}
}

// sync waits until the state contains all committed writes.
func (s *Store) sync(ctx context.Context) error {
	_, err := s.state.Sync(ctx)
	return readError(err)
}

func readError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unavailable(err)
}
