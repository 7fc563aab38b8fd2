package resource

import (
	"bytes"
	"context"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Delete removes an object, or marks it as deleting where something has to happen before: a grace
// period, finalizers, or finalization of the kind.
func (s *Store) Delete(ctx context.Context, r *Request, options *metav1.DeleteOptions) (Result, error) {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if err := checkName(r.Name); err != nil {
		return Result{}, err
	}
	kind := &r.Definition.Deletion
	if kind.OrphanByDefault && kind.OrphanWarning != "" && options.PropagationPolicy == nil && options.OrphanDependents == nil {
		r.Warn(kind.OrphanWarning)
	}
	var marked *object.Object
	return s.retry(ctx, r, func() (Result, error) {
		d := deletion{store: s, request: r, kind: kind, options: options, marked: marked}
		result, err := d.run(ctx)
		marked = d.marked
		return result, err
	})
}

// A deletion is one attempt to delete an object. Its methods are the steps, below in the order in
// which they run. It is that of a write without the steps that a deletion does not have: there is
// no next object that admission could change, and nothing to validate.
type deletion struct {
	store   *Store
	request *Request
	kind    *Deletion
	options *metav1.DeleteOptions

	// marked is the object as this request has marked it, also in an earlier try; nil before that.
	// From then on the request is about this object, and not about a later one of its name.
	marked *object.Object

	current *object.Object // the stored object
	seen    *object.Object // current as the client sees it
	obj     Tree           // seen, decoded; the marked object from grace on
	asked   *attempt       // nil where admission is not asked

	graceful bool // the grace period has been set or shortened
	waits    bool // finalizers, or finalization of the kind, keep the object
}

// run is a whole try.
func (d *deletion) run(ctx context.Context) (Result, error) {
	if d.marked != nil {
		if now := d.store.current(d.request); now == nil || now.Meta.UID != d.marked.Meta.UID {
			answer, err := d.request.answer(ctx, d.marked)
			if err != nil {
				return Result{}, err
			}
			return deleted(d.request, answer, false).done(), nil // another write has removed it
		}
	}
	if err := d.read(ctx); err != nil {
		return Result{}, err
	}
	if pending := d.grace(); pending {
		return deleted(d.request, d.seen, true), nil
	}
	if err := d.admit(ctx); err != nil {
		return Result{}, err
	}
	d.propagate()
	if !d.graceful && !d.waits {
		return d.remove(ctx, d.current, d.seen)
	}
	d.mark()
	return d.append(ctx)
}

// read reads the current object, checks that the request means this one, and decodes it in the
// version of the request.
func (d *deletion) read(ctx context.Context) error {
	r := d.request
	d.current = d.store.current(r)
	if d.current == nil {
		return apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	if err := checkPreconditions(r, d.current, d.options.Preconditions); err != nil {
		return err
	}
	if d.kind.Allow != nil {
		if err := d.kind.Allow(d.current); err != nil {
			return err
		}
	}
	var err error
	if d.seen, err = r.seen(ctx, d.current); err != nil {
		return err
	}
	if d.obj, err = TreeOf(r.Definition, r.Version, d.seen); err != nil {
		return err
	}
	if d.asked = d.store.attempt(r, OperationDelete, nil); d.asked != nil {
		d.asked.admitted.Old, d.asked.admitted.Options = runtime.DeepCopyJSON(d.obj), optionsOf(OperationDelete, d.options)
	}
	return nil
}

// grace starts or shortens the grace period, if the kind has one. It returns true if the deletion
// is pending already and this request changes nothing.
func (d *deletion) grace() (pending bool) {
	d.graceful, pending = startGrace(d.kind, d.obj, d.options.GracePeriodSeconds)
	return pending
}

// admit lets admission validate the deletion. It has done so before where the kind's own
// finalization is under way.
func (d *deletion) admit(ctx context.Context) error {
	if d.current.Meta.Deleting() && d.kind.Finalization.waits(d.obj) {
		return nil
	}
	if _, err := d.asked.mutate(ctx, nil); err != nil {
		return err
	}
	return d.asked.validate(ctx, nil)
}

// propagate sets the finalizers that select what the garbage collector does with the dependents.
func (d *deletion) propagate() {
	setFinalizers(d.obj, propagationFinalizers(d.kind, d.obj, d.options))
	d.waits = len(finalizersOf(d.obj)) > 0 || d.kind.Finalization.waits(d.obj)
}

// mark sets the deletionTimestamp, unless grace has done so.
func (d *deletion) mark() {
	switch finalization := d.kind.Finalization; {
	case finalization != nil:
		if !d.current.Meta.Deleting() {
			metadata(d.obj)["deletionTimestamp"] = timestamp(now())
		}
		finalization.Begin(d.obj)
	case !d.graceful:
		markDeleting(d.obj, now())
	}
}

// append appends the marked object to the journal. Where nothing keeps the object, its removal
// follows, so that watchers see it marked, and then removed.
func (d *deletion) append(ctx context.Context) (Result, error) {
	r := d.request
	seconds, _ := metaInt(d.obj, "deletionGracePeriodSeconds")
	marked, err := r.encode(ctx, d.obj, false)
	if err != nil {
		return Result{}, err
	}
	if bytes.Equal(marked.Raw, d.current.Raw) {
		return Result{Object: d.seen, Pending: true}, nil
	}
	answer, err := r.answer(ctx, marked)
	if err != nil {
		return Result{}, err
	}
	if r.DryRun {
		answer.Revision = d.current.Revision
		return Result{Object: answer, Pending: true}, nil
	}
	if err := d.store.append(ctx, r, d.current.Key, d.current, marked, nil); err != nil {
		return Result{}, err
	}
	if answer != marked { // marked is shared from now on
		answer.Revision = marked.Revision
	}
	if !d.graceful || seconds > 0 || d.waits {
		return Result{Object: answer, Pending: true, committed: true}, nil
	}
	d.marked = marked
	return d.remove(ctx, marked, answer)
}

// remove appends the removal of an object to the journal, with what is released by it. The answer
// shows the object as seen.
func (d *deletion) remove(ctx context.Context, o, seen *object.Object) (Result, error) {
	r := d.request
	if r.DryRun {
		return deleted(r, seen, false), nil
	}
	claims, err := d.store.release(r, o)
	if err != nil {
		return Result{}, err
	}
	if err := d.store.append(ctx, r, o.Key, o, nil, claims); err != nil {
		return Result{}, err
	}
	return deleted(r, seen, false).done(), nil
}

// deleted is the answer to a deletion: the object, or a Status with its uid, which tells clients
// which object has been deleted.
func deleted(r *Request, o *object.Object, pending bool) Result {
	if r.Definition.Deletion.ReturnsObject {
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

// DeleteCollection deletes, one by one, the objects that a list with the same options shows, and
// returns that list. An object that another request has deleted in between is no error.
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
