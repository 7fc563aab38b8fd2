package reaper

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An item is an object to process, as it was when processing began.
type item struct {
	*Reaper
	definition *resource.Definition
	object     *object.Object
}

// collect returns the deletion of the object if all its owners are gone. If the object waits for
// its dependents, it returns the next step of that deletion.
func (i *item) collect() (write, error) {
	meta, collects := &i.object.Meta, !i.opts.KeepGarbage
	switch {
	case collects && meta.Deleting() && meta.HasFinalizer(metav1.FinalizerOrphanDependents):
		return i.orphan, nil
	case collects && meta.Deleting() && meta.HasFinalizer(metav1.FinalizerDeleteDependents):
		return i.foreground(), nil
	case !i.opts.KeepStorage && meta.Deleting() && meta.HasFinalizer(protection(i.object.Key.Resource)):
		return i.unprotect()
	case !collects, meta.Deleting(), len(meta.Owners) == 0:
		return nil, nil
	}
	owners := i.judge()
	switch {
	case len(owners.unknown) > 0:
		return nil, errParked
	case len(owners.present) > 0:
		if len(owners.gone)+len(owners.waiting) == 0 {
			return nil, nil
		}
		// The absent owners cannot come back. References to them would delay deletions.
		return i.setOwners(owners.present), nil
	case len(owners.waiting) > 0 && i.hasDependents():
		if i.inCycle() {
			return i.breakCycle(), nil
		}
		return i.delete(metav1.DeletePropagationForeground), nil
	case meta.HasFinalizer(metav1.FinalizerOrphanDependents):
		return i.delete(metav1.DeletePropagationOrphan), nil
	case meta.HasFinalizer(metav1.FinalizerDeleteDependents):
		return i.delete(metav1.DeletePropagationForeground), nil
	}
	return i.delete(metav1.DeletePropagationBackground), nil
}

// owners are the owner references of an object, by the state of the owners.
type owners struct {
	present []object.Owner
	waiting []object.Owner // in foreground deletion: dependents go first
	gone    []object.Owner
	unknown []object.Owner // may exist
}

func (i *item) judge() owners {
	var o owners
	for _, ref := range i.object.Meta.Owners {
		if _, seen := i.gone[ref.UID]; seen {
			o.gone = append(o.gone, ref)
			continue
		}
		key, ok := i.ownerKey(i.object, ref)
		if !ok {
			o.unknown = append(o.unknown, ref)
			continue
		}
		owner, _ := i.state.Get(key)
		switch {
		case owner == nil || owner.Meta.UID != ref.UID:
			o.gone = append(o.gone, ref)
		case isForeground(owner):
			o.waiting = append(o.waiting, ref)
		default:
			o.present = append(o.present, ref)
		}
	}
	return o
}

// ownerKey returns the key that an owner has if it exists. ok is false if the kind is not served in
// that version, or if the object is cluster-scoped and the owner is not.
func (r *Reaper) ownerKey(o *object.Object, ref object.Owner) (object.Key, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return object.Key{}, false
	}
	d := r.store.Registry().Load().Kind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if d == nil || d.Version(gv) == nil || d.Namespaced && o.Key.Namespace == "" {
		return object.Key{}, false
	}
	return d.Key(o.Key.Namespace, ref.Name), true
}

func isForeground(o *object.Object) bool {
	return o.Meta.Deleting() && o.Meta.HasFinalizer(metav1.FinalizerDeleteDependents)
}

// dependents returns the objects that name this one as an owner, except for itself.
func (i *item) dependents() []*object.Object {
	uid := i.object.Meta.UID
	if uid == "" {
		return nil
	}
	var all []*object.Object
	for _, key := range i.state.Dependents(uid) {
		if o, _ := i.state.Get(key); o != nil && key != i.object.Key && len(referencesTo(o, uid)) > 0 {
			all = append(all, o)
		}
	}
	return all
}

func (i *item) hasDependents() bool { return len(i.dependents()) > 0 }

func referencesTo(o *object.Object, uid types.UID) []object.Owner {
	return slices.DeleteFunc(slices.Clone(o.Meta.Owners), func(ref object.Owner) bool { return ref.UID != uid })
}

func blocks(o *object.Object, uid types.UID) bool {
	return slices.ContainsFunc(o.Meta.Owners, func(ref object.Owner) bool { return ref.UID == uid && ref.BlockOwnerDeletion })
}

// foreground returns the removal of the finalizer of an object in foreground deletion, once no
// dependent blocks it. Until then it queues the dependents.
func (i *item) foreground() write {
	blocked := false
	for _, o := range i.dependents() {
		if !o.Meta.Deleting() {
			i.queue.add(o.Key)
		}
		blocked = blocked || blocks(o, i.object.Meta.UID)
	}
	if blocked {
		return nil
	}
	return i.removeFinalizer(metav1.FinalizerDeleteDependents)
}

// orphan removes the owner references of the dependents, and then the finalizer.
func (i *item) orphan(ctx context.Context) error {
	uid := i.object.Meta.UID
	for _, o := range i.dependents() {
		d := i.store.Registry().Load().Resource(o.Key.Resource)
		if d == nil {
			return errParked
		}
		dependent := item{Reaper: i.Reaper, definition: d, object: o}
		left := slices.DeleteFunc(slices.Clone(o.Meta.Owners), func(ref object.Owner) bool { return ref.UID == uid })
		if err := dependent.setOwners(left)(ctx); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return i.removeFinalizer(metav1.FinalizerOrphanDependents)(ctx)
}

// inCycle reports whether the object blocks an owner and one of its dependents is in foreground
// deletion too: they may wait for each other.
func (i *item) inCycle() bool {
	return slices.ContainsFunc(i.dependents(), isForeground) &&
		slices.ContainsFunc(i.object.Meta.Owners, func(ref object.Owner) bool { return ref.BlockOwnerDeletion })
}

// breakCycle removes blockOwnerDeletion from the object's owner references. The object follows as
// an event.
func (i *item) breakCycle() write {
	refs := slices.Clone(i.object.Meta.Owners)
	for n := range refs {
		refs[n].BlockOwnerDeletion = false
	}
	return i.setOwners(refs)
}

func (i *item) delete(policy metav1.DeletionPropagation) write {
	revision := i.object.Revision.String()
	return func(ctx context.Context) error {
		_, err := i.store.Delete(ctx, request(i.definition, i.object.Key, "", collector), &metav1.DeleteOptions{
			PropagationPolicy: &policy,
			Preconditions:     &metav1.Preconditions{UID: &i.object.Meta.UID, ResourceVersion: &revision},
		})
		return err
	}
}

func (i *item) removeFinalizer(name string) write {
	left := slices.DeleteFunc(slices.Clone(i.object.Meta.Finalizers), func(f string) bool { return f == name })
	return i.patchMetadata("finalizers", left, len(left) == 0)
}

func (i *item) setOwners(refs []object.Owner) write {
	owners := make([]map[string]any, len(refs))
	for n, ref := range refs {
		owners[n] = map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "name": ref.Name, "uid": ref.UID}
		if ref.Controller {
			owners[n]["controller"] = true
		}
		if ref.BlockOwnerDeletion {
			owners[n]["blockOwnerDeletion"] = true
		}
	}
	return i.patchMetadata("ownerReferences", owners, len(owners) == 0)
}

// patchMetadata replaces one field of the object's metadata, with a precondition on its revision.
func (i *item) patchMetadata(field string, value any, empty bool) write {
	metadata := map[string]any{"uid": i.object.Meta.UID, "resourceVersion": i.object.Revision.String(), field: value}
	if empty {
		metadata[field] = nil
	}
	return func(ctx context.Context) error {
		data, err := json.Marshal(map[string]any{"metadata": metadata})
		if err != nil {
			return err
		}
		_, err = i.store.Patch(ctx, request(i.definition, i.object.Key, "", collector), resource.Patch{Type: types.MergePatchType, Data: data})
		return err
	}
}
