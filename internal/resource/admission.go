package resource

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// A Gate checks the writes of users, besides the kinds themselves. Its functions are safe for
// concurrent use, and return Kubernetes API errors.
type Gate struct {
	// PermitCreate returns an error if the user of an update or apply, whose object does not exist,
	// is not allowed to create it. It is not called for requests of the server itself. Nil permits
	// all.
	PermitCreate func(ctx context.Context, r *Request) error
	// Provide is called before admission when a user creates an object in a namespace that does not
	// exist. It may create the namespace; if it does not, the request is rejected. Nil creates none.
	Provide func(ctx context.Context, r *Request, obj Tree) error
	// Admission admits the writes of users. Nil admits all.
	Admission Admission
	// Claim adds claims to every write, including those of the server, after Strategy.Claim of the
	// kind. Nil claims nothing.
	Claim func(c *Claims, r *Request, obj, old Tree) error
	// Spares reports whether the removal of an object needs no Claim, for which the object would
	// have to be decoded. It may add preconditions for that to c. Nil means that Claim is always
	// called.
	Spares func(c *Claims, r *Request) bool
}

// SetGate sets the gate of the store. It must be called before the first request.
func (s *Store) SetGate(g Gate) { s.gate = g }

// An Operation is the operation that admission admits.
type Operation string

// The operations, in the words of admission webhooks.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// An Admission admits the writes of users. Implementations are safe for concurrent use.
type Admission interface {
	// Begin returns the Admitter of a request, nil if none of the plugins handles it, which must be
	// cheap to find out. It is called again when a write is retried.
	Begin(r *Request, op Operation) Admitter
}

// An Admitter admits one attempt of a request. Its errors are Kubernetes API errors.
type Admitter interface {
	// Mutate may change a.Object, in place or by replacing it. That is the object which the client
	// wants: with defaults and managed fields, before the server sets the fields that clients may
	// not choose. A deletion has no object to change.
	Mutate(ctx context.Context, a *Admitted) error
	// Validate accepts or rejects the object that is about to be stored, and changes nothing.
	Validate(ctx context.Context, a *Admitted) error
}

// Admitted is the request that admission admits.
type Admitted struct {
	Request   *Request
	Operation Operation
	// Kind is that of Object and Old, in the version of the request. For a subresource with bodies of
	// another kind, it is that kind.
	Kind schema.GroupVersionKind
	// Name is that of the object; "" if it has not been generated yet.
	Name string
	// Object is nil for a deletion, Old for a creation. Old must not be changed. For a connection,
	// Object is the parameters of the request.
	Object, Old Tree
	// Options are a *metav1.CreateOptions, *metav1.UpdateOptions or *metav1.DeleteOptions, according
	// to the operation, with apiVersion and kind. A patch has those of the update or creation that it
	// results in. Nil for none, and for a connection.
	Options runtime.Object
	// Passes tells mutators which pass they are in.
	Passes Passes
	// Raw says that Object is a custom resource that a mutator has changed, and is not normalised.
	Raw bool

	kinds *Set // the served kinds; nil for none
}

// Passes are the passes of mutators over an object: one, or two if a mutator requests another
// because it has changed what mutators before it have seen. The zero value is the first pass.
type Passes struct {
	// Second says that this is the second pass, which is the last.
	Second bool
	// Again requests a second pass.
	Again bool

	notes map[any]any
}

// Note returns the value that a mutator has stored under key, nil if there is none.
func (p *Passes) Note(key any) any { return p.notes[key] }

// SetNote stores a value for the second pass.
func (p *Passes) SetNote(key, note any) {
	if p.notes == nil {
		p.notes = map[any]any{}
	}
	p.notes[key] = note
}

// Namespace returns the namespace that admission matches: for a namespace its own name, for
// cluster-scoped objects "".
func (a *Admitted) Namespace() string {
	if a.Request.Definition.GroupResource() == namespaces {
		return a.Name
	}
	return a.Request.Namespace
}

// An attempt is one attempt of a request at admission. Nil admits everything.
type attempt struct {
	by       Admitter
	admitted Admitted
}

// attempt begins an attempt of a request. old is nil if the object is new.
func (s *Store) attempt(r *Request, op Operation, old Tree) *attempt {
	if r.User == nil || s.gate.Admission == nil {
		return nil
	}
	by := s.gate.Admission.Begin(r, op)
	if by == nil {
		return nil
	}
	a := &attempt{by: by, admitted: Admitted{kinds: s.registry.Load(), Request: r, Operation: op, Kind: r.BodyKind(), Name: r.Name, Old: old, Options: optionsOf(op, r.Options)}}
	if r.OneOfMany {
		a.admitted.Name = ""
	}
	return a
}

// optionsOf converts the options of a request to those of an operation.
func optionsOf(op Operation, given runtime.Object) runtime.Object {
	if op == OperationConnect {
		return nil
	}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: name}
	}
	var o metav1.UpdateOptions // which creations have, too
	switch given := given.(type) {
	case *metav1.DeleteOptions:
		shown := *given
		shown.TypeMeta = kind("DeleteOptions")
		return &shown
	case *metav1.CreateOptions:
		o.DryRun, o.FieldManager, o.FieldValidation = given.DryRun, given.FieldManager, given.FieldValidation
	case *metav1.UpdateOptions:
		o = *given
	case *metav1.PatchOptions:
		o.DryRun, o.FieldManager, o.FieldValidation = given.DryRun, given.FieldManager, given.FieldValidation
	}
	if op == OperationCreate {
		return &metav1.CreateOptions{TypeMeta: kind("CreateOptions"), DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
	}
	o.TypeMeta = kind("UpdateOptions")
	return &o
}

// mutate returns an object as admission has changed it, and uses obj up. For a deletion both are
// nil.
func (a *attempt) mutate(ctx context.Context, obj Tree) (Tree, error) {
	if a == nil {
		return obj, nil
	}
	a.show(obj)
	before, _, _ := unstructured.NestedFieldCopy(obj, "metadata", "managedFields")
	if err := a.by.Mutate(ctx, &a.admitted); err != nil {
		return nil, err
	}
	a.checkManagedFields(before)
	return a.admitted.Object, nil
}

// raw reports whether the mutated object may not be normalised.
func (a *attempt) raw() bool { return a != nil && a.admitted.Raw }

// checkManagedFields restores the managedFields of an object if a mutator has made them invalid.
func (a *attempt) checkManagedFields(before any) {
	obj := a.admitted.Object
	if obj == nil {
		return
	}
	now, _, _ := unstructured.NestedFieldNoCopy(obj, "metadata", "managedFields")
	if object.Equal(before, now) {
		return
	}
	err := managedfields.ValidateManagedFields(managedFieldsOf(obj))
	if err == nil {
		return
	}
	if before == nil {
		delete(metadata(obj), "managedFields")
	} else {
		metadata(obj)["managedFields"] = before
	}
	a.admitted.Request.Warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
}

// validate returns an error if admission rejects an object that is about to be stored.
func (a *attempt) validate(ctx context.Context, obj Tree) error {
	if a == nil {
		return nil
	}
	a.show(obj)
	return a.by.Validate(ctx, &a.admitted)
}

func (a *attempt) show(obj Tree) {
	a.admitted.Object = obj
	if a.admitted.Name == "" && obj != nil {
		a.admitted.Name = metaString(obj, "name")
	}
}
