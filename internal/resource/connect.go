package resource

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// connection returns the connection of a request; nil for other requests.
func (r *Request) connection() *Connection { return r.Version.Connection(r.Subresource) }

// Connect validates and admits the parameters of a request for a connection, and returns them as
// admission has changed them: what the request means must be read from these alone. It also returns
// the object that the request names, nil if it does not exist, which the caller must check. As in
// Kubernetes, admission comes first.
func (s *Store) Connect(ctx context.Context, r *Request, options Tree) (Tree, *object.Object, error) {
	c := r.connection()
	if errs := c.Model.Validate(ctx, options, nil, ""); len(errs) > 0 {
		return nil, nil, causes.Invalid(c.Kind.GroupKind(), r.Name, errs)
	}
	if c.Admitted {
		var err error
		if options, err = s.admitConnection(ctx, r, options); err != nil {
			return nil, nil, err
		}
	}
	name := r.Name
	if c.Below {
		var ok bool
		if _, name, _, ok = utilnet.SplitSchemeNamePort(r.Name); !ok {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", r.Definition.Singular, r.Name))
		}
	}
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	o, _ := s.state.Get(r.Definition.Key(r.Namespace, name))
	return options, o, nil
}

// admitConnection returns the parameters of a connection as admission has changed them.
func (s *Store) admitConnection(ctx context.Context, r *Request, options Tree) (Tree, error) {
	attempt := s.attempt(r, OperationConnect, nil)
	options, err := attempt.mutate(ctx, options)
	if err != nil {
		return nil, err
	}
	want := r.connection().Kind
	if kind := namedKind(options); kind != want {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission has changed the kind of the parameters from %s to %s", want, kind))
	}
	return options, attempt.validate(ctx, options)
}
