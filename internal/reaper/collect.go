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

// An item is one object that is looked at, as it was when that began.
type item struct {
	*Reaper
	definition *resource.Definition
	object     *object.Object
}

// collect removes the object if all its owners are gone, or helps it to go if it waits for its dependents.
func (i *item) collect(ctx context.Context) error {
	meta := &i.object.Meta
	switch {
	case meta.Deleting() && meta.HasFinalizer(metav1.FinalizerOrphanDependents):
		return i.orphan(ctx)
	case meta.Deleting() && meta.HasFinalizer(metav1.FinalizerDeleteDependents):
		return i.foreground(ctx)
	case meta.Deleting() && meta.HasFinalizer(protection(i.object.Key.Resource)):
		return i.unprotect(ctx)
	case meta.Deleting(), len(meta.Owners) == 0:
		return nil
	}
	owners := i.judge()
	switch {
	case len(owners.unknown) > 0:
		return errParked
	case len(owners.present) > 0:
		if len(owners.gone)+len(owners.waiting) == 0 {
			return nil
		}
		// The others will not come back, and must not keep anybody waiting.
		return i.setOwners(ctx, owners.present)
	case len(owners.waiting) > 0 && i.hasDependents():
		if done, err := i.breakCycle(ctx); done || err != nil {
			return err
		}
		return i.delete(ctx, metav1.DeletePropagationForeground)
	case meta.HasFinalizer(metav1.FinalizerOrphanDependents):
		return i.delete(ctx, metav1.DeletePropagationOrphan)
	case meta.HasFinalizer(metav1.FinalizerDeleteDependents):
		return i.delete(ctx, metav1.DeletePropagationForeground)
	}
	return i.delete(ctx, metav1.DeletePropagationBackground)
}

// owners are the owner references of an object by what is known of the owners.
type owners struct {
	present []object.Owner
	waiting []object.Owner // being deleted in the foreground: dependents go first
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

// ownerKey is where an owner must be, if it exists. It is not known if the kind is not served in that version, or if the
// object belongs to no namespace and the owner to one.
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

// dependents returns the objects, but for this one itself, that name this one as an owner.
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

// foreground lets go of an object that is deleted in the foreground once no dependent blocks it any longer, and until
// then has its dependents deleted.
func (i *item) foreground(ctx context.Context) error {
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
	return i.removeFinalizer(ctx, metav1.FinalizerDeleteDependents)
}

// orphan makes the dependents forget an object, and then lets go of it.
func (i *item) orphan(ctx context.Context) error {
	uid := i.object.Meta.UID
	for _, o := range i.dependents() {
		d := i.store.Registry().Load().Resource(o.Key.Resource)
		if d == nil {
			return errParked
		}
		dependent := item{Reaper: i.Reaper, definition: d, object: o}
		err := dependent.setOwners(ctx, slices.DeleteFunc(slices.Clone(o.Meta.Owners), func(ref object.Owner) bool { return ref.UID == uid }))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return i.removeFinalizer(ctx, metav1.FinalizerOrphanDependents)
}

// breakCycle makes the object block none of its owners, if one of its dependents is being deleted in the foreground too:
// they may wait for each other. It says whether there was anything to change.
func (i *item) breakCycle(ctx context.Context) (done bool, err error) {
	if !slices.ContainsFunc(i.dependents(), isForeground) {
		return false, nil
	}
	if !slices.ContainsFunc(i.object.Meta.Owners, func(ref object.Owner) bool { return ref.BlockOwnerDeletion }) {
		return false, nil
	}
	refs := slices.Clone(i.object.Meta.Owners)
	for n := range refs {
		refs[n].BlockOwnerDeletion = false
	}
	return true, i.setOwners(ctx, refs) // and comes back as an event
}

func (i *item) delete(ctx context.Context, policy metav1.DeletionPropagation) error {
	revision := i.object.Revision.String()
	_, err := i.store.Delete(ctx, request(i.definition, i.object.Key, "", collector), &metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &i.object.Meta.UID, ResourceVersion: &revision},
	})
	return err
}

func (i *item) removeFinalizer(ctx context.Context, name string) error {
	left := slices.DeleteFunc(slices.Clone(i.object.Meta.Finalizers), func(f string) bool { return f == name })
	return i.patchMetadata(ctx, "finalizers", left, len(left) == 0)
}

func (i *item) setOwners(ctx context.Context, refs []object.Owner) error {
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
	return i.patchMetadata(ctx, "ownerReferences", owners, len(owners) == 0)
}

// patchMetadata replaces one field of the object's metadata, if the object is still as it was looked at.
func (i *item) patchMetadata(ctx context.Context, field string, value any, empty bool) error {
	metadata := map[string]any{"uid": i.object.Meta.UID, "resourceVersion": i.object.Revision.String(), field: value}
	if empty {
		metadata[field] = nil
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = i.store.Patch(ctx, request(i.definition, i.object.Key, "", collector), resource.Patch{Type: types.MergePatchType, Data: data})
	return err
}
