package client

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An AlreadyOwnedError is returned for an object that has another controller.
type AlreadyOwnedError struct {
	Object metav1.Object
	Owner  metav1.OwnerReference // the controller that it has
}

// Error implements error.
func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("object %s/%s is already owned by another %s controller %s",
		e.Object.GetNamespace(), e.Object.GetName(), e.Owner.Kind, e.Owner.Name)
}

// An OwnerReferenceOption changes an owner reference before it is set.
type OwnerReferenceOption func(*metav1.OwnerReference)

// WithBlockOwnerDeletion sets whether a foreground deletion of the owner waits for the object.
func WithBlockOwnerDeletion(block bool) OwnerReferenceOption {
	return func(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = &block }
}

// SetControllerReference makes owner the controller of an object: the object is garbage collected
// with it, and Builder.Owns maps its events to the owner. The owner must be in the namespace of the
// object or cluster-scoped. If the object has another controller, the error is an
// *AlreadyOwnedError.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
	ref := metav1.OwnerReference{BlockOwnerDeletion: new(true), Controller: new(true)}
	return setOwner(ref, owner, controlled, scheme, opts)
}

// SetOwnerReference adds owner to the owners of an object, which is garbage collected when all of
// them are gone.
func SetOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
	return setOwner(metav1.OwnerReference{}, owner, object, scheme, opts)
}

func setOwner(ref metav1.OwnerReference, owner, object metav1.Object, scheme *runtime.Scheme, opts []OwnerReferenceOption) error {
	if err := identify(&ref, owner, scheme); err != nil {
		return err
	}
	if isNil(object) {
		return fmt.Errorf("owner %s of an object: the object is nil (%T)", owner.GetName(), object)
	}
	if namespace := owner.GetNamespace(); namespace != "" && namespace != object.GetNamespace() {
		return fmt.Errorf("owner %s/%s of %q: an owner must be in the namespace of the object, %q, or cluster-scoped",
			namespace, owner.GetName(), object.GetName(), object.GetNamespace())
	}
	ref.Name, ref.UID = owner.GetName(), owner.GetUID()
	for _, opt := range opts {
		opt(&ref)
	}
	if controls(ref) {
		if other := metav1.GetControllerOf(object); other != nil && !sameOwner(*other, ref) {
			return &AlreadyOwnedError{Object: object, Owner: *other}
		}
	}
	refs := slices.Clone(object.GetOwnerReferences())
	if i := indexOwner(refs, ref); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	object.SetOwnerReferences(refs)
	return nil
}

// RemoveOwnerReference removes owner from the owners of an object. It returns an error if it is not
// one of them.
func RemoveOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	return removeOwner(owner, object, scheme, func(metav1.OwnerReference) bool { return true })
}

// RemoveControllerReference removes owner from the owners of an object. It returns an error if it
// is not the controller.
func RemoveControllerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	return removeOwner(owner, object, scheme, controls)
}

func removeOwner(owner, object metav1.Object, scheme *runtime.Scheme, is func(metav1.OwnerReference) bool) error {
	var ref metav1.OwnerReference
	if err := identify(&ref, owner, scheme); err != nil {
		return err
	}
	refs := object.GetOwnerReferences()
	i := indexOwner(refs, ref)
	if i < 0 || !is(refs[i]) {
		return fmt.Errorf("%s %q is not an owner of %q, or not its controller", ref.Kind, ref.Name, object.GetName())
	}
	object.SetOwnerReferences(slices.Concat(refs[:i], refs[i+1:]))
	return nil
}

// HasControllerReference reports whether an object has a controller.
func HasControllerReference(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), controls)
}

// HasOwnerReference reports whether owner is among owner references.
func HasOwnerReference(refs []metav1.OwnerReference, owner Object, scheme *runtime.Scheme) (bool, error) {
	var ref metav1.OwnerReference
	if err := identify(&ref, owner, scheme); err != nil {
		return false, err
	}
	return indexOwner(refs, ref) >= 0, nil
}

// identify has ref name an owner.
func identify(ref *metav1.OwnerReference, owner metav1.Object, scheme *runtime.Scheme) error {
	obj, ok := owner.(runtime.Object)
	if !ok {
		return fmt.Errorf("owner of an object: %T is not a runtime.Object", owner)
	}
	gvk, err := GVKForObject(obj, scheme)
	if err != nil {
		return err
	}
	ref.APIVersion, ref.Kind = gvk.ToAPIVersionAndKind()
	ref.Name = owner.GetName()
	return nil
}

func controls(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

func indexOwner(refs []metav1.OwnerReference, ref metav1.OwnerReference) int {
	return slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return sameOwner(r, ref) })
}

// sameOwner compares the group but not the version, and the name but not the uid, so that an owner
// replaces a deleted one of the same name.
func sameOwner(a, b metav1.OwnerReference) bool {
	groupA, errA := schema.ParseGroupVersion(a.APIVersion)
	groupB, errB := schema.ParseGroupVersion(b.APIVersion)
	return errA == nil && errB == nil && groupA.Group == groupB.Group && a.Kind == b.Kind && a.Name == b.Name
}
