package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// A write is one try to write an object under way. Its methods are the steps, below in the order in
// which they run; each reads what the steps before it have set.
//
// A try that meets another write starts again with read, on a new write (see retry). A creation is
// the exception: nothing that it starts from can change, so the steps up to mutate run once, and
// admission mutates once, however often the rest is tried (see again).
type write struct {
	store   *Store
	request *Request
	change  change // how the next object comes from the live one; not used by Create

	// upsert says that an update or apply creates the object. The request was authorized for that
	// verb, and must be for create, too.
	upsert bool
	// generated says that the name of the new object is the server's choice.
	generated bool

	current *object.Object // the stored object; nil where the write creates one
	seen    *object.Object // current as the client sees it
	old     Tree           // seen, decoded; for reading only; nil where the write creates
	live    Tree           // a copy of old into which the change puts a view; nil without views
	obj     Tree           // the next object, in the version of the request; a view of it from derive to mutate
	asked   *attempt       // nil where admission is not asked

	raw      bool            // obj is a custom resource as admission has left it, not normalised
	guards   []journal.Guard // what must not change if an object is to be created
	claims   *Claims
	finished bool           // the update ends the deletion of the object
	next     *object.Object // obj as it is stored
}

// A step is one of the methods of a write.
type step = func(*write, context.Context) error

// run is a whole try of an update, patch or apply.
func (w *write) run(ctx context.Context) (Result, error) {
	if err := w.take(ctx, (*write).read, (*write).derive, (*write).mutate); err != nil {
		return Result{}, err
	}
	return w.finish(ctx)
}

// finish is the part of a try that begins once admission has mutated the object.
func (w *write) finish(ctx context.Context) (Result, error) {
	err := w.take(ctx, (*write).permit, (*write).prepare, (*write).validate, (*write).admit, (*write).claim, (*write).encode)
	if err != nil {
		return Result{}, err
	}
	return w.append(ctx)
}

func (w *write) take(ctx context.Context, steps ...step) error {
	for _, step := range steps {
		if err := step(w, ctx); err != nil {
			return err
		}
	}
	return nil
}

// again returns a write for another try to create the object, with a tree of its own.
func (w *write) again() *write {
	next := *w
	next.obj = runtime.DeepCopyJSON(w.obj)
	return &next
}

// read reads the current object, and decodes it in the version of the request. Where there is none,
// the write becomes a creation, if the change allows that.
func (w *write) read(ctx context.Context) error {
	s, r, c := w.store, w.request, &w.change
	w.current = s.current(r)
	if w.current == nil {
		switch {
		case c.uid != "" && c.allowCreate:
			return uidPrecondition(r, c.uid, "")
		case !c.allowCreate:
			return apierrors.NewNotFound(r.GroupResource(), r.Name)
		}
		w.upsert = true
		return nil
	}
	if uid := string(w.current.Meta.UID); c.uid != "" && uid != c.uid {
		return uidPrecondition(r, c.uid, uid)
	}
	var err error
	if w.seen, err = r.seen(ctx, w.current); err != nil {
		return err
	}
	w.old, err = TreeOf(r.Definition, r.Version, w.seen)
	return err
}

// derive makes the next object of the live one: the change decodes or patches it, normalises the
// outcome, and notes in managedFields what it changed.
func (w *write) derive(ctx context.Context) error {
	if w.current == nil {
		return w.deriveNew()
	}
	s, r, c := w.store, w.request, &w.change
	w.asked = s.attempt(r, OperationUpdate, w.old)
	if c.put != nil {
		w.live = runtime.DeepCopyJSON(w.old)
	}
	obj, err := c.shown(w.old)
	if err != nil {
		return err
	}
	if w.asked != nil {
		w.asked.admitted.Old = runtime.DeepCopyJSON(obj)
	}
	if w.obj, err = c.next(obj); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return ensureIdentity(r, w.obj)
}

// deriveNew is derive where an update or apply creates the object.
func (w *write) deriveNew() error {
	r := w.request
	obj, err := w.change.next(nil)
	if err != nil {
		return err
	}
	if uid := metaString(obj, "uid"); uid != "" {
		return apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := ensureIdentity(r, obj); err != nil {
		return err
	}
	wipeSystemFields(obj)
	delete(metadata(obj), "resourceVersion")
	w.obj = obj
	return nil
}

// mutate lets admission change the next object.
func (w *write) mutate(ctx context.Context) error {
	if w.current == nil {
		return w.mutateNew(ctx)
	}
	var err error
	if w.obj, err = w.asked.mutate(ctx, w.obj); err != nil {
		return err
	}
	w.raw = w.asked.raw()
	// Again, as admission may have moved the object to another namespace.
	if err := ensureNamespace(w.request, w.obj); err != nil {
		return err
	}
	if c := &w.change; c.put != nil {
		if w.obj, err = c.put(w.live, w.obj); err != nil {
			return err
		}
	}
	dedupOwners(w.request, w.obj, repeatedOwnersAfter)
	return nil
}

// mutateNew is mutate for an object that is to be created.
func (w *write) mutateNew(ctx context.Context) error {
	s, r := w.store, w.request
	asked := s.attempt(r, OperationCreate, nil)
	if asked != nil {
		// permit checks this again, as it may have changed by then. Here it keeps objects that cannot be
		// created from webhooks.
		if _, err := w.admitsNew(ctx); err != nil {
			return err
		}
		var err error
		if w.obj, err = asked.mutate(ctx, w.obj); err != nil {
			return err
		}
		w.raw = asked.raw()
		if m, found := w.obj["metadata"]; found {
			if _, ok := m.(map[string]any); !ok {
				return apierrors.NewInternalError(errors.New("system metadata was not initialized"))
			}
		}
		dedupOwners(r, w.obj, repeatedOwnersAfter)
		if err := ensureNamespace(r, w.obj); err != nil {
			return err
		}
	}
	if !w.upsert {
		return nil
	}
	return ensureName(r, w.obj) // again, as admission may have changed it
}

// permit checks that the kind permits the user to write the object. An object is created only if
// its namespace and its kind accept new ones, and an update must name the revision that it starts
// from.
func (w *write) permit(ctx context.Context) error {
	s, r := w.store, w.request
	if w.current == nil {
		var err error
		if w.guards, err = w.admitsNew(ctx); err != nil {
			return err
		}
	}
	if hook := r.Definition.Strategy.Permit; hook != nil && r.User != nil {
		if err := hook(ctx, s, r, w.obj, w.old); err != nil {
			return err
		}
	}
	if w.current == nil {
		return nil
	}
	return expectRevision(r, w.obj, w.current)
}

// prepare sets what clients may not choose.
func (w *write) prepare(context.Context) error {
	if w.current == nil {
		prepareCreate(w.request, w.obj)
		return nil
	}
	prepareUpdate(w.request, w.obj, w.old)
	keepSystemFields(w.obj, w.old)
	metadata(w.obj)["resourceVersion"] = w.current.Revision.String()
	return nil
}

// validate validates the object, and sends the warnings of the kind about a valid one.
func (w *write) validate(ctx context.Context) error {
	r := w.request
	var err error
	if w.current == nil {
		err = validateCreate(ctx, r, w.obj, w.raw)
	} else {
		err = validateUpdate(ctx, r, w.obj, w.old, w.raw)
	}
	if err != nil {
		return err
	}
	if hook := r.Definition.Strategy.Warnings; hook != nil {
		for _, text := range hook(w.obj, w.old) {
			r.Warn(text)
		}
	}
	return nil
}

// admit runs validating admission on the object. A creation runs a new admission, because the
// mutating one has run once for all attempts.
func (w *write) admit(ctx context.Context) error {
	if w.current != nil {
		if w.asked == nil {
			return nil
		}
		view, err := w.change.shown(w.obj)
		if err != nil {
			return err
		}
		return w.asked.validate(ctx, view)
	}
	s, r := w.store, w.request
	if w.upsert && r.User != nil && s.gate.PermitCreate != nil {
		if err := s.gate.PermitCreate(ctx, r); err != nil {
			return err
		}
	}
	return s.attempt(r, OperationCreate, nil).validate(ctx, w.obj)
}

// claim collects what must be written in the same commit as the object.
func (w *write) claim(context.Context) error {
	s, r := w.store, w.request
	if w.current == nil {
		if r.DryRun {
			delete(metadata(w.obj), "resourceVersion")
		}
		if metaString(w.obj, "resourceVersion") != "" { // Kubernetes finds this as late
			return errors.New("resourceVersion should not be set on objects to be created")
		}
	}
	w.finished = w.current != nil && finishesDeletion(r.Definition, w.obj, w.old)
	var err error
	if w.finished {
		w.claims, err = s.release(r, w.current)
	} else {
		w.claims, err = s.claim(r, w.obj, w.old)
	}
	if err != nil {
		return err
	}
	if w.current == nil {
		w.claims.guards = append(w.claims.guards, w.guards...)
	} else {
		keepManagedTimes(w.obj, w.old)
	}
	return nil
}

// encode encodes the tree as the object to store, and uses it up.
func (w *write) encode(ctx context.Context) (err error) {
	w.next, err = w.request.encode(ctx, w.obj, w.raw)
	return err
}

// append appends the object to the journal (see commit.go), or its removal, if the update ends its
// deletion. A dry run, and an update that changes nothing, append nothing.
func (w *write) append(ctx context.Context) (Result, error) {
	s, r := w.store, w.request
	created := w.current == nil
	if created {
		if existing, _ := s.state.Get(w.next.Key); existing != nil {
			if w.upsert {
				return Result{}, errConflict // another write created it: this one becomes an update
			}
			return Result{}, alreadyExists(r, existing)
		}
	} else if !w.finished && bytes.Equal(w.next.Raw, w.current.Raw) && !s.state.Stale(w.current) {
		return Result{Object: w.seen}, nil
	}
	// An object that cannot be shown to the client is not written.
	answer, err := r.answer(ctx, w.next)
	if err != nil {
		return Result{}, err
	}
	if !created && (r.DryRun || w.finished) {
		answer.Revision = w.current.Revision
	}
	if r.DryRun {
		return Result{Object: answer, Created: created}, nil
	}
	key, next := w.next.Key, w.next
	if !created {
		key = w.current.Key
	}
	if w.finished {
		next = nil
	}
	if err := s.append(ctx, r, key, w.current, next, w.claims); err != nil {
		return Result{}, err
	}
	if next != nil && answer != next { // next is shared from now on
		answer.Revision = next.Revision
	}
	result := Result{Object: answer, Created: created, committed: true}
	if d := r.Definition; answer == next && r.Version == d.Storage && next.Schema == stamp(d.Storage) && !w.raw {
		result.written, result.writtenIn = w.obj, r.Version
	}
	return result, nil
}
