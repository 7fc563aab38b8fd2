package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Delete removes an object, or marks it as deleting where something has to
// happen first: finalizers, grace, what owns and is owned.
func (s *Store) Delete(ctx context.Context, r *Request, options *metav1.DeleteOptions) (Result, error) {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if err := checkName(r.Name); err != nil {
		return Result{}, err
	}
	if h := r.Definition.Hooks; h.OrphanByDefault && h.OrphanWarning != "" && options.PropagationPolicy == nil && options.OrphanDependents == nil {
		r.Warn(h.OrphanWarning)
	}
	return s.retry(ctx, r, func() (Result, error) {
		current := s.current(r)
		if current == nil {
			return Result{}, apierrors.NewNotFound(r.GroupResource(), r.Name)
		}
		return s.delete(ctx, r, current, options)
	})
}

func (s *Store) delete(ctx context.Context, r *Request, current *object.Object, options *metav1.DeleteOptions) (Result, error) {
	d := r.Definition
	if err := checkPreconditions(r, current, options.Preconditions); err != nil {
		return Result{}, err
	}
	if allow := d.Hooks.AllowDelete; allow != nil {
		if err := allow(current); err != nil {
			return Result{}, err
		}
	}
	seen, err := r.seen(ctx, current)
	if err != nil {
		return Result{}, err
	}
	obj, err := TreeOf(d, r.Version, seen)
	if err != nil {
		return Result{}, err
	}
	attempt := s.attempt(r, OperationDelete, nil)
	if attempt != nil {
		attempt.admitted.Old, attempt.admitted.Options = runtime.DeepCopyJSON(obj), optionsOf(OperationDelete, options)
	}
	graceful, pending := d.grace(obj, options)
	if pending {
		return s.deleted(r, seen, true), nil
	}
	// A kind with finalization of its own was asked about when it began to wait.
	if current.Meta.Deleting() && d.Hooks.Finalize != nil && d.Hooks.Finalize(obj) {
		attempt = nil
	}
	if _, err := attempt.mutate(ctx, nil); err != nil {
		return Result{}, err
	}
	if err := attempt.validate(ctx, nil); err != nil {
		return Result{}, err
	}
	setFinalizers(obj, propagationFinalizers(d, obj, options))
	waits := len(finalizersOf(obj)) > 0 || d.Hooks.Finalize != nil && d.Hooks.Finalize(obj)
	if !graceful && !waits {
		if r.DryRun {
			return s.deleted(r, seen, false), nil
		}
		claims, err := s.release(r, current)
		if err != nil {
			return Result{}, err
		}
		if err := s.append(ctx, r, current.Key, current, nil, claims); err != nil {
			return Result{}, err
		}
		return s.deleted(r, seen, false).done(), nil
	}
	switch hook := d.Hooks.PrepareDelete; {
	case hook != nil:
		if !current.Meta.Deleting() {
			metadata(obj)["deletionTimestamp"] = timestamp(now())
		}
		hook(obj)
	case !graceful:
		markDeleting(obj, now())
	}
	seconds, _ := metaInt(obj, "deletionGracePeriodSeconds")
	marked, err := r.encode(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	if string(marked.Raw) == string(current.Raw) {
		return Result{Object: seen, Pending: true}, nil
	}
	answer, err := r.answer(ctx, marked)
	if err != nil {
		return Result{}, err
	}
	if r.DryRun {
		answer.Revision = current.Revision
		return Result{Object: answer, Pending: true}, nil
	}
	if err := s.append(ctx, r, current.Key, current, marked, nil); err != nil {
		return Result{}, err
	}
	if answer != marked { // which is everybody's now
		answer.Revision = marked.Revision
	}
	if !graceful || seconds > 0 || waits {
		return Result{Object: answer, Pending: true, committed: true}, nil
	}
	// No grace was asked for: watchers see the object marked, and then gone.
	claims, err := s.release(r, marked)
	if err != nil {
		return Result{}, err
	}
	err = s.append(ctx, r, marked.Key, marked, nil, claims)
	if errors.Is(err, errConflict) && s.current(r) == nil {
		err = nil // somebody else has removed it
	}
	if err != nil {
		return Result{}, err
	}
	return s.deleted(r, answer, false).done(), nil
}

// deleted is the answer to a deletion that is done: a Status with the uid, so that
// clients can tell which object is gone.
func (s *Store) deleted(r *Request, o *object.Object, pending bool) Result {
	if r.Definition.Hooks.DeleteReturnsObject {
		return Result{Object: o, Pending: pending}
	}
	gr := r.GroupResource()
	return Result{Pending: pending, Status: &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  o.Key.Name,
			Group: gr.Group,
			Kind:  gr.Resource, // Kubernetes puts the resource here
			UID:   o.Meta.UID,
		},
	}}
}

func checkPreconditions(r *Request, current *object.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if r.Definition.Hooks.PrepareDelete != nil {
		return checkOwnPreconditions(r, current, p)
	}
	gr := schema.GroupResource{Group: r.groupVersion().Group, Resource: r.Definition.Kind}
	if p.UID != nil && *p.UID != current.Meta.UID {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, current.Meta.UID))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.Revision.String() {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, current.Revision))
	}
	return nil
}

// checkOwnPreconditions is checkPreconditions in the words of the kinds that have
// finalization of their own.
func checkOwnPreconditions(r *Request, current *object.Object, p *metav1.Preconditions) error {
	var failed string
	word := "Precondition"
	if r.Definition.Group == definitions {
		word = "precondition"
	}
	switch {
	case p.UID != nil && *p.UID != current.Meta.UID:
		failed = fmt.Sprintf("%s failed: UID in precondition: %v, UID in object meta: %v", word, *p.UID, current.Meta.UID)
	case p.ResourceVersion != nil && *p.ResourceVersion != current.Revision.String():
		failed = fmt.Sprintf("%s failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", word, *p.ResourceVersion, current.Revision)
	default:
		return nil
	}
	return apierrors.NewConflict(r.GroupResource(), r.Name, errors.New(failed))
}

// grace starts or shortens the grace period of a kind that has one. graceful says
// that obj is now to be stored; pending that there is nothing to do.
func (d *Definition) grace(obj Tree, options *metav1.DeleteOptions) (graceful, pending bool) {
	if d.Hooks.Grace == nil {
		return false, false
	}
	var asked *int64
	if options.GracePeriodSeconds != nil {
		seconds := *options.GracePeriodSeconds
		if seconds < 0 {
			seconds = 1
		}
		asked = &seconds
	}
	if metaString(obj, "deletionTimestamp") != "" {
		return shortenGrace(obj, asked)
	}
	seconds := d.Hooks.Grace(obj)
	if asked != nil && seconds != 0 {
		seconds = *asked
	}
	m := metadata(obj)
	m["deletionTimestamp"] = timestamp(now().Add(time.Duration(seconds) * time.Second))
	m["deletionGracePeriodSeconds"] = seconds
	bumpGeneration(obj)
	return true, false
}

// shortenGrace applies a deletion to an object that is deleting already: the grace
// period can only become shorter.
func shortenGrace(obj Tree, asked *int64) (graceful, pending bool) {
	had, ok := metaInt(obj, "deletionGracePeriodSeconds")
	if !ok || had == 0 {
		return false, false
	}
	if asked == nil || *asked >= had {
		return false, true
	}
	seconds := *asked
	at := timeOf(obj, "deletionTimestamp").Add(time.Duration(seconds-had) * time.Second)
	if t := now(); at.Before(t) {
		at = t
		if seconds != 0 {
			seconds = 1
		}
	}
	m := metadata(obj)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = timestamp(at), seconds
	return true, false
}

func timeOf(obj Tree, key string) time.Time {
	t, err := time.Parse(time.RFC3339, metaString(obj, key))
	if err != nil {
		return time.Time{}
	}
	return t
}

func markDeleting(obj Tree, at time.Time) {
	m := metadata(obj)
	if metaString(obj, "deletionTimestamp") == "" {
		bumpGeneration(obj)
		m["deletionTimestamp"] = timestamp(at)
	} else if timeOf(obj, "deletionTimestamp").After(at) {
		m["deletionTimestamp"] = timestamp(at)
	}
	m["deletionGracePeriodSeconds"] = int64(0)
}

func bumpGeneration(obj Tree) {
	if generation, _ := metaInt(obj, "generation"); generation > 0 {
		setGeneration(obj, generation+1)
	}
}

// propagationFinalizers returns the finalizers of an object that is to go, with
// the one that makes its dependents orphans, or go first, put in or taken out as
// the request, the object and the kind say, in this order.
func propagationFinalizers(d *Definition, obj Tree, options *metav1.DeleteOptions) []any {
	has := finalizersOf(obj)
	orphan, foreground := false, false
	switch policy := options.PropagationPolicy; {
	case options.OrphanDependents != nil:
		orphan = *options.OrphanDependents
	case policy != nil:
		orphan = *policy == metav1.DeletePropagationOrphan
		foreground = *policy == metav1.DeletePropagationForeground
	case slices.Contains(has, any(metav1.FinalizerOrphanDependents)):
		orphan = true
	case slices.Contains(has, any(metav1.FinalizerDeleteDependents)):
		foreground = true
	default:
		orphan = d.Hooks.OrphanByDefault
	}
	finalizers := slices.DeleteFunc(slices.Clone(has), func(f any) bool {
		return f == metav1.FinalizerOrphanDependents && !orphan || f == metav1.FinalizerDeleteDependents && !foreground
	})
	for name, wanted := range map[string]bool{metav1.FinalizerOrphanDependents: orphan, metav1.FinalizerDeleteDependents: foreground} {
		if wanted && !slices.Contains(finalizers, any(name)) {
			finalizers = append(finalizers, name)
		}
	}
	return finalizers
}

func setFinalizers(obj Tree, finalizers []any) {
	if len(finalizers) == 0 {
		delete(metadata(obj), "finalizers")
		return
	}
	metadata(obj)["finalizers"] = finalizers
}

// DeleteCollection deletes what a list with the same options shows, one by one,
// and returns that list. Objects that are gone by then are no error.
func (s *Store) DeleteCollection(ctx context.Context, r *Request, options *metav1.DeleteOptions, list ListOptions) (List, error) {
	found, err := s.List(ctx, r, list)
	if err != nil {
		return List{}, err
	}
	for _, o := range found.Objects {
		one := *r
		one.Namespace, one.Name, one.OneOfMany = o.Key.Namespace, o.Key.Name, true
		if _, err := s.Delete(ctx, &one, options); err != nil && !apierrors.IsNotFound(err) {
			return List{}, err
		}
	}
	return found, nil
}
