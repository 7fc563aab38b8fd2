package resource

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const lostUpdate = "the object has been modified; please apply your changes to the latest version and try again"

// expectRevision returns an error unless the resourceVersion in an object is the current one.
func expectRevision(r *Request, obj Tree, current *object.Object) error {
	want, err := requestRevision(obj)
	if err != nil {
		return err
	}
	if want == 0 {
		if r.Definition.Strategy.UnconditionalUpdate {
			return nil
		}
		gr := r.GroupResource()
		return causes.Invalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	}
	if want != current.Revision {
		return apierrors.NewConflict(r.GroupResource(), r.Name, errors.New(lostUpdate))
	}
	return nil
}

// uidPrecondition is the error of a request for an object with the uid want where there is one with
// the uid current, or none ("").
func uidPrecondition(r *Request, want, current string) error {
	return apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		"/registry"+r.Key().Under(r.Definition.StoredAt), want, current))
}

// holding returns the guards for the precondition While of a request, or 409 if it does not hold.
// An update of the object between this call and the commit is a conflict, after which the write is
// tried again.
func (s *Store) holding(r *Request) ([]journal.Guard, error) {
	w := r.While
	if w.UID == "" {
		return nil, nil
	}
	o, _ := s.state.Get(w.Key)
	if o == nil || o.Meta.UID != w.UID {
		return nil, apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf("the precondition of the request does not hold: %s with uid %q does not exist", w.Key, w.UID))
	}
	return []journal.Guard{{Key: w.Key, Revision: o.Revision}}, nil
}

// checkPreconditions compares an object with the preconditions of a deletion, which may be nil.
func checkPreconditions(r *Request, current *object.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if r.Definition.Deletion.Finalization != nil {
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

// checkOwnPreconditions is checkPreconditions in the words that Kubernetes uses for kinds with a
// Finalization.
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
