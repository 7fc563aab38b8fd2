package endpoint

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/authz"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	unsafeDeleteField      = "ignoreStoreReadErrorWithClusterBreakingPotential"
	unsafeDeleteVerb       = "unsafe-delete-ignore-read-errors"
	unsafeDeleteAnnotation = "apiserver.k8s.io/unsafe-delete-ignore-read-error"
)

// unsafeDelete reports whether a deletion is one of an object that cannot be read (KEP-3926).
func unsafeDelete(options *metav1.DeleteOptions) bool {
	unsafe := options.IgnoreStoreReadErrorWithClusterBreakingPotential
	return unsafe != nil && *unsafe
}

// deleteUnsafely returns the error of such a deletion. This server can read all of its objects: it
// does not start with others. Like kube-apiserver, it deletes none of these in this way, so that
// their finalizers and preconditions hold.
func (c *call) deleteUnsafely() error {
	c.record.Annotate(unsafeDeleteAnnotation, "")
	attributes := c.attributes()
	attributes.Verb = unsafeDeleteVerb
	resource := schema.GroupResource{Group: c.info.Group, Resource: c.info.Resource}
	switch decision, reason, err := c.h.opts.Authorizer.Authorize(c.r.Context(), attributes); {
	case decision == authz.Allow:
	case err != nil:
		return apierrors.NewForbidden(resource, c.info.Name, fmt.Errorf("error while checking permission for %q, %w", unsafeDeleteVerb, err))
	default:
		return apierrors.NewForbidden(resource, c.info.Name, fmt.Errorf("not permitted to do %q, reason: %s", unsafeDeleteVerb, reason))
	}
	if o, _ := c.h.store.State().Get(c.definition.Key(c.info.Namespace, c.info.Name)); o == nil {
		return apierrors.NewNotFound(resource, c.info.Name)
	}
	return apierrors.NewConflict(resource, c.info.Name, errors.New("unsafe deletion is not allowed because the object is decodable from storage"))
}

// errUnsafeCollection is the error of the deletion of a collection that ignores errors of the
// store.
func errUnsafeCollection() error {
	return invalidOptions("DeleteOptions", field.ErrorList{
		field.Invalid(field.NewPath(unsafeDeleteField), true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}
