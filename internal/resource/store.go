package resource

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Store executes the verbs for all resources of a registry. It is safe for concurrent use.
type Store struct {
	state    *state.State
	registry *Registry
	managers sync.Map // fieldManagerKey -> *fields.Manager
	shared   shared   // conversions of webhooks
	gate     Gate
}

// NewStore returns a Store over a state.
func NewStore(st *state.State, registry *Registry) *Store {
	return &Store{state: st, registry: registry}
}

// Registry returns the registry whose resources the store serves.
func (s *Store) Registry() *Registry { return s.registry }

// State returns the state machine below.
func (s *Store) State() *state.State { return s.state }

// Get returns an object that is not older than resourceVersion, if that is set.
func (s *Store) Get(ctx context.Context, r *Request, resourceVersion string) (Result, error) {
	if err := checkName(r.Name); err != nil {
		return Result{}, err
	}
	at, err := parseRevision(resourceVersion)
	if err != nil {
		return Result{}, err
	}
	if err := s.reach(ctx, r, resourceVersion, at); err != nil {
		return Result{}, err
	}
	o, _ := s.state.Get(r.Key())
	if o == nil {
		return Result{}, apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	if o, err = r.seen(ctx, o); err != nil {
		return Result{}, err
	}
	if r.Subresource == scaleSubresource {
		return s.getScale(r, o)
	}
	return Result{Object: o}, nil
}

// readable returns an error if the object of a request, or, if it names none, an object of its
// resource, is damaged in the journal.
func (s *Store) readable(r *Request) error {
	var err error
	if r.Name != "" {
		err = s.state.Readable(r.Key())
	} else {
		err = s.state.AllReadable(r.Definition.GroupResource())
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// checkName returns an error for names that cannot be part of a path, in which Kubernetes stores
// objects.
func checkName(name string) error {
	if problems := path.IsValidPathSegmentName(name); len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return nil
}

// namespaces is the resource whose objects are the namespaces of all others.
var namespaces = schema.GroupResource{Resource: "namespaces"}

func now() time.Time { return time.Now() }

// current returns the object that a write starts from, nil if there is none.
func (s *Store) current(r *Request) *object.Object {
	o, _ := s.state.Get(r.Key())
	return o
}
