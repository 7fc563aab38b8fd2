package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Update replaces an object, or the part of it that a subresource shows.
func (s *Store) Update(ctx context.Context, r *Request, body Body) (Result, error) {
	obj, err := s.decode(r, body)
	if err != nil {
		return Result{}, err
	}
	if err := ensureNamespace(r, obj); err != nil {
		return Result{}, err
	}
	if err := ensureName(r, obj); err != nil {
		return Result{}, err
	}
	dedupOwners(r, obj, repeatedOwners)
	apply := func(live Tree) (Tree, error) {
		if live == nil {
			live = blank(r.BodyModel())
		}
		return s.manageUpdate(ctx, r, live, runtime.DeepCopyJSON(obj))
	}
	if r.Subresource == scaleSubresource {
		return s.writeScale(ctx, r, metaString(obj, "uid"), apply)
	}
	return s.change(ctx, r, change{
		uid:         metaString(obj, "uid"),
		allowCreate: r.Definition.Hooks.CreateOnUpdate && r.Subresource == "",
		apply:       apply,
	})
}

// A change is what update and patch have in common: how the new object comes from
// the live one, and when it may.
type change struct {
	uid         string // the object must have this uid; "" for any
	allowCreate bool
	// apply returns the new object; it may change live, which is nil if there is
	// no object. The result's resourceVersion is what the writer expects; none
	// means any.
	apply func(live Tree) (Tree, error)

	// view is what the writer sees of the object, where that is an object of another kind: its Scale. Then apply is about
	// the view, and so is admission, and put writes a view into the object. Nil where he sees the object itself.
	view func(obj Tree) (Tree, error)
	put  func(obj, view Tree) (Tree, error)
}

// shown is what the writer sees of an object.
func (c *change) shown(obj Tree) (Tree, error) {
	if c.view == nil {
		return obj, nil
	}
	return c.view(obj)
}

// carryOut returns what the change, and admission after it, make of the live object, which is used up.
func (c *change) carryOut(ctx context.Context, r *Request, live Tree, attempt *attempt) (Tree, error) {
	obj, err := c.shown(live)
	if err != nil {
		return nil, err
	}
	if attempt != nil {
		attempt.admitted.Old = runtime.DeepCopyJSON(obj)
	}
	if obj, err = c.apply(obj); err != nil {
		return nil, err
	}
	if err := ensureNamespace(r, obj); err != nil {
		return nil, err
	}
	if err := ensureName(r, obj); err != nil {
		return nil, err
	}
	if obj, err = attempt.mutate(ctx, obj); err != nil {
		return nil, err
	}
	if err := ensureNamespace(r, obj); err != nil || c.put == nil {
		return obj, err
	}
	return c.put(live, obj)
}

func (s *Store) change(ctx context.Context, r *Request, c change) (Result, error) {
	if err := checkName(r.Name); err != nil {
		return Result{}, err
	}
	return s.retry(ctx, r, func() (Result, error) {
		current := s.current(r)
		if current == nil {
			return s.createByChange(ctx, r, c)
		}
		return s.replace(ctx, r, c, current)
	})
}

// createByChange is an update or apply of an object that is not there.
func (s *Store) createByChange(ctx context.Context, r *Request, c change) (Result, error) {
	if c.uid != "" && c.allowCreate {
		return Result{}, uidPrecondition(r, c.uid, "")
	}
	if !c.allowCreate {
		return Result{}, apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	obj, err := c.apply(nil)
	if err != nil {
		return Result{}, err
	}
	if uid := metaString(obj, "uid"); uid != "" {
		return Result{}, apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := ensureNamespace(r, obj); err != nil {
		return Result{}, err
	}
	if err := ensureName(r, obj); err != nil {
		return Result{}, err
	}
	wipeSystemFields(obj)
	delete(metadata(obj), "resourceVersion")
	if obj, err = s.mutateNew(ctx, r, obj); err != nil {
		return Result{}, err
	}
	if err := ensureName(r, obj); err != nil { // which admission may have changed
		return Result{}, err
	}
	r.changes = true
	result, err := s.create(ctx, r, obj)
	if apierrors.IsAlreadyExists(err) {
		err = errConflict // somebody else was faster: now it is an update
	}
	return result, err
}

const lostUpdate = "the object has been modified; please apply your changes to the latest version and try again"

// replace is an update or patch of an object that is there.
func (s *Store) replace(ctx context.Context, r *Request, c change, current *object.Object) (Result, error) {
	d := r.Definition
	if c.uid != "" && string(current.Meta.UID) != c.uid {
		return Result{}, uidPrecondition(r, c.uid, string(current.Meta.UID))
	}
	seen, err := r.seen(ctx, current)
	if err != nil {
		return Result{}, err
	}
	old, err := TreeOf(d, r.Version, seen)
	if err != nil {
		return Result{}, err
	}
	attempt := s.attempt(r, OperationUpdate, old)
	obj, err := c.carryOut(ctx, r, runtime.DeepCopyJSON(old), attempt)
	if err != nil {
		return Result{}, err
	}
	dedupOwners(r, obj, repeatedOwnersAfter)
	if err := s.permit(ctx, r, obj, old); err != nil {
		return Result{}, err
	}
	if err := expectRevision(r, obj, current); err != nil {
		return Result{}, err
	}
	prepareUpdate(r, obj, old)
	keepSystemFields(obj, old)
	metadata(obj)["resourceVersion"] = current.Revision.String()
	if err := validateUpdate(r, obj, old); err != nil {
		return Result{}, err
	}
	warn(r, obj, old)
	if attempt != nil {
		view, err := c.shown(obj)
		if err != nil {
			return Result{}, err
		}
		if err := attempt.validate(ctx, view); err != nil {
			return Result{}, err
		}
	}
	finished := finishesDeletion(d, obj, old)
	var claims *Claims
	if finished {
		claims, err = s.release(r, current)
	} else {
		claims, err = s.claim(r, obj, old)
	}
	if err != nil {
		return Result{}, err
	}
	keepManagedTimes(obj, old)

	o, err := r.encode(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	if !finished && bytes.Equal(o.Raw, current.Raw) && !s.state.Stale(current) {
		return Result{Object: seen}, nil
	}
	// What cannot be shown is not written.
	answer, err := r.answer(ctx, o)
	if err != nil {
		return Result{}, err
	}
	switch {
	case r.DryRun:
		answer.Revision = current.Revision
		return Result{Object: answer}, nil
	case finished:
		answer.Revision = current.Revision
		return Result{Object: answer, committed: true}, s.append(ctx, r, current.Key, current, nil, claims)
	}
	err = s.append(ctx, r, current.Key, current, o, claims)
	if answer != o { // o is everybody's now
		answer.Revision = o.Revision
	}
	return Result{Object: answer, committed: true}, err
}

// expectRevision compares the resourceVersion in an object with the current one.
func expectRevision(r *Request, obj Tree, current *object.Object) error {
	want, err := requestRevision(obj)
	if err != nil {
		return err
	}
	if want == 0 {
		if r.Definition.Hooks.UnconditionalUpdate {
			return nil
		}
		gr := r.GroupResource()
		return apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	}
	if want != current.Revision {
		return apierrors.NewConflict(r.GroupResource(), r.Name, errors.New(lostUpdate))
	}
	return nil
}

// prepareUpdate puts back what the request may not write.
func prepareUpdate(r *Request, obj, old Tree) {
	generation, _ := metaInt(old, "generation")
	setGeneration(obj, generation)
	if sub := r.Version.Subresource(r.Subresource); sub != nil && sub.Prepare != nil {
		sub.Prepare(obj, old)
		return
	}
	if hook := r.Definition.Hooks.PrepareUpdate; hook != nil {
		hook(obj, old)
	}
}

// finishesDeletion says whether an update takes away the last that a deletion
// has waited for.
func finishesDeletion(d *Definition, obj, old Tree) bool {
	if metaString(old, "deletionTimestamp") == "" || len(finalizersOf(obj)) > 0 {
		return false
	}
	if grace, ok := metaInt(old, "deletionGracePeriodSeconds"); ok && grace != 0 {
		return false
	}
	return d.Hooks.Finalize == nil || !d.Hooks.Finalize(obj)
}

func finalizersOf(obj Tree) []any {
	m, _ := obj["metadata"].(map[string]any)
	list, _ := m["finalizers"].([]any)
	return list
}

// uidPrecondition words the conflict over a uid in the request; current is "" if
// there is no object.
func uidPrecondition(r *Request, want, current string) error {
	return apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		"/registry"+r.Key().Path(), want, current))
}
