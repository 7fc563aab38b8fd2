package resource

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refused says that a webhook has not converted what is stored. Kubernetes takes
// the object for a broken one then, and this is what it says.
type refused struct {
	of  *object.Object // the first of those that it was asked for
	err error
}

func (e *refused) Error() string { return e.err.Error() }

func (e *refused) Unwrap() error { return e.err }

// corrupt is the message that gets and deletions have; root is what keys begin with.
func (e *refused) corrupt(root string) string {
	return fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"object not decodable revision=%d: %v", root+e.of.Key.Path(), e.of.Revision, e.err)
}

// listError is what a list answers with. Kubernetes, which asks for each object by
// itself, tells of all of them.
func listError(r *Request, err error) error {
	var no *refused
	if !errors.As(err, &no) {
		return err
	}
	gr, text := r.GroupResource(), no.corrupt("/registry")
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("failed to read one or more %s from the storage: %s", gr, text),
		Details: &metav1.StatusDetails{
			Group: gr.Group,
			Kind:  gr.Resource,
			Name:  "list",
			Causes: []metav1.StatusCause{{
				Type:    metav1.CauseTypeUnexpectedServerResponse,
				Field:   "/registry" + no.of.Key.Path(),
				Message: text,
			}},
		},
	}}
}

// watchError is what a watch answers with that cannot even begin. In Kubernetes it
// would read from a cache of objects that have been converted, and waits for it.
func watchError(r *Request, err error) error {
	if err = listError(r, err); apierrors.ReasonForError(err) != metav1.StatusReasonStoreReadError {
		return err
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("storage is (re)initializing: failed to list <unspecified>: %v", err), 1)
}
