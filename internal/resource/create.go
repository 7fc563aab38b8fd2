package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// Create stores a new object, or runs the Action of the resource.
func (s *Store) Create(ctx context.Context, r *Request, body Body) (Result, error) {
	obj, err := s.decode(ctx, r, body)
	if err != nil {
		return Result{}, err
	}
	if action := r.action(); action != nil {
		return s.act(ctx, r, action, obj)
	}
	wipeSystemFields(obj)
	if err := ensureNamespace(r, obj); err != nil {
		return Result{}, err
	}
	if r.Name != "" {
		if err := ensureName(r, obj); err != nil {
			return Result{}, err
		}
	}
	dedupOwners(r, obj, repeatedOwners)
	if obj, err = s.manageUpdate(ctx, r, blank(r.BodyModel()), obj); err != nil {
		return Result{}, err
	}
	w := &write{store: s, request: r, obj: obj}
	if err := w.mutate(ctx); err != nil {
		return Result{}, err
	}
	if metaString(w.obj, "name") != "" || metaString(w.obj, "generateName") == "" {
		return s.retry(ctx, r, func() (Result, error) { return w.again().finish(ctx) })
	}
	return s.createGenerated(ctx, w)
}

// generateAttempts is the maximum number of generated names that are tried, as in Kubernetes.
const generateAttempts = 8

func (s *Store) createGenerated(ctx context.Context, w *write) (result Result, err error) {
	w.generated = true
	for range generateAttempts {
		name := generateName(metaString(w.obj, "generateName"))
		result, err = s.retry(ctx, w.request, func() (Result, error) {
			named := w.again()
			metadata(named.obj)["name"] = name
			return named.finish(ctx)
		})
		if !apierrors.IsAlreadyExists(err) {
			return result, err
		}
		err = apierrors.NewGenerateNameConflict(w.request.GroupResource(), name, 1)
	}
	return Result{}, err
}

// generateName appends five random characters to base, which it shortens so that the name fits into
// a label value.
func generateName(base string) string {
	const suffix = 5
	if most := 63 - suffix; len(base) > most {
		base = base[:most]
	}
	return base + utilrand.String(suffix)
}

// prepareCreate sets the fields of a new object that clients may not choose.
func prepareCreate(r *Request, obj Tree) {
	fillSystemFields(obj, now())
	strategy := &r.Definition.Strategy
	if strategy.PrepareCreate != nil {
		strategy.PrepareCreate(obj)
	}
	if strategy.PrepareRequester != nil && r.User != nil {
		strategy.PrepareRequester(obj, r.User)
	}
}

func alreadyExists(r *Request, existing *object.Object) error {
	err := apierrors.NewAlreadyExists(r.GroupResource(), existing.Key.Name)
	if existing.Meta.Deleting() {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// admitsNew rejects a new object if its kind or its namespace is terminating, and returns the
// preconditions of its creation.
func (w *write) admitsNew(ctx context.Context) ([]journal.Guard, error) {
	guards, err := w.store.kindAdmits(w.request, w.obj, w.generated)
	if err != nil {
		return nil, err
	}
	more, err := w.store.namespaceAdmits(ctx, w.request, w.obj, w.generated)
	return append(guards, more...), err
}

// kindAdmits rejects new custom resources whose CRD has been deleted or is terminating. generated
// says that the server chooses the name of the object.
func (s *Store) kindAdmits(r *Request, obj Tree, generated bool) ([]journal.Guard, error) {
	if !r.Definition.Custom || r.Definition.DefinedBy.Name == "" {
		return nil, nil
	}
	crd, _ := s.state.Get(r.Definition.DefinedBy)
	if crd == nil || crd.Meta.UID != r.Definition.DefinedByUID || crd.Meta.Deleting() {
		name := metaString(obj, "name")
		if generated { // which Kubernetes generates later than this
			name = ""
		}
		return nil, apierrors.NewForbidden(r.GroupResource(), name,
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	return []journal.Guard{{Key: crd.Key, Revision: crd.Revision}}, nil
}

// namespaceAdmits rejects new objects in namespaces that do not exist or are terminating, and
// returns the precondition of their creation.
func (s *Store) namespaceAdmits(ctx context.Context, r *Request, obj Tree, generated bool) ([]journal.Guard, error) {
	if !r.Definition.Namespaced {
		return nil, nil
	}
	key := object.Key{Resource: namespaces, Name: r.Namespace}
	ns, _ := s.state.Get(key)
	if ns == nil && r.User != nil && s.gate.Provide != nil {
		if err := s.gate.Provide(ctx, r, obj); err != nil {
			return nil, err
		}
		ns, _ = s.state.Get(key)
	}
	if ns == nil {
		return nil, apierrors.NewNotFound(namespaces, r.Namespace)
	}
	if ns.Meta.Deleting() {
		name := cmp.Or(metaString(obj, "name"), r.Name)
		if generated {
			name = metaString(obj, "generateName")
		}
		err := apierrors.NewForbidden(r.GroupResource(), name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    "NamespaceTerminating",
			Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
			Field:   "metadata.namespace",
		})
		return nil, err
	}
	return []journal.Guard{{Key: key, Revision: ns.Revision}}, nil
}
