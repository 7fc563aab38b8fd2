package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// finish starts to delete the objects of a definition that is being deleted, unless this has
// started. A goroutine waits until the objects are gone, as finalizers can hold them for any time.
func (c *Controller) finish(ctx context.Context, name string) {
	e := c.known[name]
	if e.finishes || e.manifest.Metadata.DeletionTimestamp == nil || !waitsForCleanup(e.manifest) {
		return
	}
	e.finishes = true
	f := finisher{Controller: c, name: name, uid: e.manifest.Metadata.UID, definition: e.served}
	if f.definition == nil && e.manifest.is(apiextensionsv1.Established) {
		// The definition is established but serves no version; its objects still exist.
		f.definition, _ = customDefinition(e.manifest, newSource(e.manifest.object, c.programs), c.webhooks)
	}
	c.done.Go(func() {
		f.run(ctx)
		select {
		case c.finished <- name:
		case <-ctx.Done():
		}
	})
}

func waitsForCleanup(m *manifest) bool {
	return slices.Contains(m.Metadata.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
}

// A finisher deletes the objects of one definition, and then removes the finalizer of the
// definition.
type finisher struct {
	*Controller
	name       string
	uid        types.UID
	definition *resource.Definition // nil if it was never established
}

// run retries until the objects are deleted, the definition is gone, or ctx is done.
func (f *finisher) run(ctx context.Context) {
	for retry := firstRetry; ctx.Err() == nil; retry = min(2*retry, lastRetry) {
		err := f.try(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.log.Warn("cannot delete the objects of a CustomResourceDefinition", "name", f.name, "error", err)
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (f *finisher) try(ctx context.Context) error {
	terminating := func(status apiextensionsv1.ConditionStatus, reason, message string) func(*manifest) {
		return func(m *manifest) {
			setCondition(&m.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
				Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message,
			}, time.Now())
		}
	}
	done := terminating(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established")
	if f.definition != nil {
		err := f.update(ctx, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
		if err != nil {
			return err
		}
		if reason, err := f.deleteInstances(ctx, terminating); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return errors.Join(err, f.update(ctx, terminating(apiextensionsv1.ConditionTrue, reason, err.Error())))
		}
		done = terminating(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
	}
	return f.update(ctx, func(m *manifest) {
		done(m)
		m.Metadata.Finalizers = slices.DeleteFunc(m.Metadata.Finalizers, func(name string) bool {
			return name == apiextensionsv1.CustomResourceCleanupFinalizer
		})
	})
}

// update changes the stored definition, unless it no longer waits for its objects.
func (f *finisher) update(ctx context.Context, edit func(*manifest)) error {
	for ctx.Err() == nil {
		o, _ := f.store.State().Get(f.kind.Key("", f.name))
		if o == nil {
			return nil
		}
		m, err := readManifest(o)
		if err != nil {
			return err
		}
		if m.Metadata.UID != f.uid || m.Metadata.DeletionTimestamp == nil || !waitsForCleanup(m) {
			return nil
		}
		edit(m)
		if _, err = f.writeStatus(ctx, m); !apierrors.IsConflict(err) {
			if apierrors.IsNotFound(err) {
				err = nil
			}
			return err
		}
	}
	return ctx.Err()
}

// patience limits the time that deletions take before the condition Terminating reports it.
const patience = time.Minute

// deleteInstances deletes all objects and waits until they are gone. With an error it returns the
// reason of the condition Terminating.
func (f *finisher) deleteInstances(ctx context.Context, terminating func(apiextensionsv1.ConditionStatus, string, string) func(*manifest)) (reason string, err error) {
	st, gr := f.store.State(), f.definition.GroupResource()
	snapshot := st.Snapshot(gr)
	cursor, err := st.Watch(gr, snapshot.Revision)
	if err != nil {
		return "InstanceDeletionFailed", fmt.Errorf("could not list instances: %w", err)
	}
	if err := st.AllReadable(gr); err != nil {
		return "InstanceDeletionFailed", err
	}
	var errs []error
	for o := range snapshot.All("") {
		if err := f.deleteInstance(ctx, o); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return "InstanceDeletionFailed", fmt.Errorf("could not issue all deletes: %w", err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for st.Count(gr) > 0 && f.waits() {
		events, wait, err := cursor.Next(ctx)
		if err != nil {
			return "InstanceDeletionCheck", fmt.Errorf("could not confirm zero CustomResources remaining: %w", err)
		}
		for _, e := range events {
			// This object was created by a write that was under way when the deletion began.
			if e.Object != nil && e.Prev == nil {
				if err := f.deleteInstance(ctx, e.Object); err != nil {
					return "InstanceDeletionFailed", fmt.Errorf("could not issue all deletes: %w", err)
				}
			}
		}
		if wait == nil {
			continue
		}
		select {
		case <-wait:
		case <-timer.C:
			err := f.update(ctx, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionCheck",
				fmt.Sprintf("could not confirm zero CustomResources remaining: %v", context.DeadlineExceeded)))
			if err != nil {
				return "InstanceDeletionCheck", err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", nil
}

// waits reports whether the definition still waits for its objects. It returns false for a later
// definition of the same name, whose objects must be left alone. A snapshot that has such an object
// also has that definition.
func (f *finisher) waits() bool {
	o, _ := f.store.State().Get(f.kind.Key("", f.name))
	return o != nil && o.Meta.UID == f.uid && o.Meta.Deleting() && o.Meta.HasFinalizer(apiextensionsv1.CustomResourceCleanupFinalizer)
}

func (f *finisher) deleteInstance(ctx context.Context, o *object.Object) error {
	if !f.waits() {
		return nil
	}
	_, err := f.store.Delete(ctx, &resource.Request{
		Definition: f.definition, Version: f.definition.Storage, Namespace: o.Key.Namespace, Name: o.Key.Name,
		Manager: manager, Warn: func(string) {},
	}, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.Meta.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
