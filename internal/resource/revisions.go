package resource

import (
	"context"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Revision is a write of an object.
type Revision struct {
	Revision object.Revision
	Created  bool // the object did not exist before
	Deleted  bool
	// Tree is the object as the write has left it, in the version of the request; nil if it is
	// deleted, or cannot be read, which Err reports.
	Tree Tree
	Err  error
}

// Revisions calls take with the revisions of the object that the request names, newest first, until
// it returns false: from a revision on, or all that are known if that is 0. The object need not
// exist any more.
func (s *Store) Revisions(ctx context.Context, r *Request, from object.Revision, take func(Revision) bool) error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if err := s.readable(r); err != nil {
		return err
	}
	err := s.state.Revisions(ctx, r.Key(), from, func(e journal.Entry, unreadable error) bool {
		v := Revision{Revision: e.Revision, Created: e.Prev == 0, Deleted: e.Object == nil && unreadable == nil, Err: unreadable}
		if e.Object != nil {
			o, err := r.seen(ctx, e.Object)
			if err == nil {
				v.Tree, err = TreeOf(r.Definition, r.Version, o)
			}
			v.Err = err
		}
		return take(v)
	})
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	}
	return apierrors.NewInternalError(err)
}
