package resource

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refused is the error for a stored object that a webhook could not convert. Kubernetes reports the
// object as corrupt then.
type refused struct {
	of   *object.Object // the first one of the call
	path string         // of this object in etcd
	err  error
}

func (e *refused) Error() string { return e.err.Error() }

func (e *refused) Unwrap() error { return e.err }

// corrupt returns the message of gets and deletions. root is the prefix of keys.
func (e *refused) corrupt(root string) string {
	return fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"object not decodable revision=%d: %v", root+e.path, e.of.Revision, e.err)
}

// listError returns the error of a list. Kubernetes, which converts each object in a call of its
// own, lists all objects that could not be converted.
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
				Field:   "/registry" + no.path,
				Message: text,
			}},
		},
	}}
}

// watchError returns the error of a watch that cannot begin. In Kubernetes, a watch reads from a
// cache of converted objects and waits until that is filled.
func watchError(r *Request, err error) error {
	if err = listError(r, err); apierrors.ReasonForError(err) != metav1.StatusReasonStoreReadError {
		return err
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("storage is (re)initializing: failed to list <unspecified>: %v", err), 1)
}
