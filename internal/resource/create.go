package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// Create stores a new object, or does what a create means for the resource.
func (s *Store) Create(ctx context.Context, r *Request, body Body) (Result, error) {
	obj, err := s.decode(r, body)
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
	if obj, err = s.mutateNew(ctx, r, obj); err != nil {
		return Result{}, err
	}
	if metaString(obj, "name") != "" || metaString(obj, "generateName") == "" {
		return s.retry(ctx, r, func() (Result, error) { return s.create(ctx, r, runtime.DeepCopyJSON(obj)) })
	}
	return s.createGenerated(ctx, r, obj)
}

// mutateNew lets admission change an object that is to be created, which it uses up. It is
// asked once, however often the creation is tried.
func (s *Store) mutateNew(ctx context.Context, r *Request, obj Tree) (Tree, error) {
	attempt := s.attempt(r, OperationCreate, nil)
	if attempt == nil {
		return obj, nil
	}
	if _, err := s.admit(r, obj); err != nil { // before others hear of it
		return nil, err
	}
	obj, err := attempt.mutate(ctx, obj)
	if err != nil {
		return nil, err
	}
	dedupOwners(r, obj, repeatedOwnersAfter)
	return obj, ensureNamespace(r, obj)
}

// generateAttempts is how many generated names are tried, as Kubernetes does.
const generateAttempts = 8

func (s *Store) createGenerated(ctx context.Context, r *Request, obj Tree) (result Result, err error) {
	r.generated = true
	for range generateAttempts {
		attempt := runtime.DeepCopyJSON(obj)
		name := generateName(metaString(obj, "generateName"))
		metadata(attempt)["name"] = name
		result, err = s.retry(ctx, r, func() (Result, error) { return s.create(ctx, r, runtime.DeepCopyJSON(attempt)) })
		if !apierrors.IsAlreadyExists(err) {
			return result, err
		}
		err = apierrors.NewGenerateNameConflict(r.GroupResource(), name, 1)
	}
	return Result{}, err
}

// generateName appends five random letters to a base that leaves room for them
// in a label value.
func generateName(base string) string {
	const suffix = 5
	if most := 63 - suffix; len(base) > most {
		base = base[:most]
	}
	return base + utilrand.String(suffix)
}

// create stores obj, which it uses up, under the name in it.
func (s *Store) create(ctx context.Context, r *Request, obj Tree) (Result, error) {
	guards, err := s.admit(r, obj)
	if err != nil {
		return Result{}, err
	}
	if err := s.permit(ctx, r, obj, nil); err != nil {
		return Result{}, err
	}
	fillSystemFields(obj, now())
	if hook := r.Definition.Hooks.PrepareCreate; hook != nil {
		hook(obj)
	}
	if hook := r.Definition.Hooks.Requested; hook != nil && r.User != nil {
		hook(obj, r.User)
	}
	if err := validateCreate(r, obj); err != nil {
		return Result{}, err
	}
	warn(r, obj, nil)
	if err := s.permitCreate(ctx, r); err != nil {
		return Result{}, err
	}
	if err := s.attempt(r, OperationCreate, nil).validate(ctx, obj); err != nil {
		return Result{}, err
	}
	if r.DryRun {
		delete(metadata(obj), "resourceVersion")
	}
	if metaString(obj, "resourceVersion") != "" {
		return Result{}, fmt.Errorf("resourceVersion should not be set on objects to be created")
	}
	claims, err := s.claim(r, obj, nil)
	if err != nil {
		return Result{}, err
	}
	claims.guards = append(claims.guards, guards...)
	o, err := r.encode(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	if existing, _ := s.state.Get(o.Key); existing != nil {
		return Result{}, alreadyExists(r, existing)
	}
	answer, err := r.answer(ctx, o)
	if err != nil {
		return Result{}, err
	}
	if r.DryRun {
		return Result{Object: answer, Created: true}, nil
	}
	if err := s.append(ctx, r, o.Key, nil, o, claims); err != nil {
		return Result{}, err
	}
	if answer != o { // o is everybody's now
		answer.Revision = o.Revision
	}
	return Result{Object: answer, Created: true, committed: true}, nil
}

// permitCreate asks whether the user may create what he was only asked about the update or the patch of.
func (s *Store) permitCreate(ctx context.Context, r *Request) error {
	if !r.changes {
		return nil
	}
	gv := r.groupVersion()
	return s.Permit(ctx, r, &auth.Attributes{
		Verb: "create", ResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version, Resource: r.Definition.Plural,
		Namespace: r.Namespace, Name: r.Name,
	})
}

func alreadyExists(r *Request, existing *object.Object) error {
	err := apierrors.NewAlreadyExists(r.GroupResource(), existing.Key.Name)
	if existing.Meta.Deleting() {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// admit refuses new objects where their namespace or their kind does not take
// any, and returns the conditions under which that stays so.
func (s *Store) admit(r *Request, obj Tree) ([]journal.Guard, error) {
	guards, err := s.admitToKind(r, obj)
	if err != nil {
		return nil, err
	}
	more, err := s.admitToNamespace(r, obj)
	return append(guards, more...), err
}

// admitToKind refuses new custom resources whose CRD is gone or on its way out.
func (s *Store) admitToKind(r *Request, obj Tree) ([]journal.Guard, error) {
	if !r.Definition.Custom || r.Definition.DefinedBy.Name == "" {
		return nil, nil
	}
	crd, _ := s.state.Get(r.Definition.DefinedBy)
	if crd == nil || crd.Meta.UID != r.Definition.DefinedByUID || crd.Meta.Deleting() {
		name := metaString(obj, "name")
		if r.generated { // later than this is asked in Kubernetes
			name = ""
		}
		return nil, apierrors.NewForbidden(r.GroupResource(), name,
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	return []journal.Guard{{Key: crd.Key, Revision: crd.Revision}}, nil
}

// admitToNamespace refuses new objects in namespaces that do not exist or are on
// their way out, and returns the condition under which that stays true.
func (s *Store) admitToNamespace(r *Request, obj Tree) ([]journal.Guard, error) {
	if !r.Definition.Namespaced {
		return nil, nil
	}
	key := object.Key{Resource: namespaces, Name: r.Namespace}
	ns, _ := s.state.Get(key)
	if ns == nil {
		return nil, apierrors.NewNotFound(namespaces, r.Namespace)
	}
	if ns.Meta.Deleting() {
		name := cmp.Or(metaString(obj, "name"), r.Name)
		if r.generated {
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

// warn sends the warnings of a kind for an object that is valid.
func warn(r *Request, obj, old Tree) {
	if hook := r.Definition.Hooks.Warnings; hook != nil {
		for _, w := range hook(obj, old) {
			r.Warn(w)
		}
	}
}
