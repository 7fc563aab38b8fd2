package resource

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/serviceaccount"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// A Gate is what stands between users and what is stored, besides the kinds themselves.
type Gate struct {
	// Authorizer decides what else a user may who may send the request: whether the role that he writes gives more than
	// he has, for one. Nil allows everything.
	Authorizer auth.Authorizer
	// Roles tells what users have been given by roles, for those who give it on. Nil knows of nothing that anybody has.
	Roles auth.Roles
	// Admission is asked about the writes of users. Nil lets all in.
	Admission Admission
	// Claim is asked of every write, those of the server included, what else must be written with it, as Hooks.Claim is
	// by kind, and after it. Nil claims nothing.
	Claim func(c *Claims, r *Request, obj, old Tree) error
	// Tokens knows who bears a token, for reviews of tokens. Nil knows nobody.
	Tokens auth.TokenAuthenticator
	// Accounts issues tokens of service accounts. Nil issues none.
	Accounts *serviceaccount.Issuer
	// Spares is asked before Claim is about an object that goes. It says that Claim need not be asked, for which the object would have
	// to be decoded, and may require what makes it so. Nil spares nothing.
	Spares func(c *Claims, r *Request) bool
}

// Guard puts a gate in front of the store. It is called before the first request.
func (s *Store) Guard(g Gate) { s.gate = g }

// Gate returns the gate in front of the store.
func (s *Store) Gate() Gate { return s.gate }

// Permit returns nil if the user of a request may do something else, too, and 403 if not. The server itself may everything.
func (s *Store) Permit(ctx context.Context, r *Request, a *auth.Attributes) error {
	if r.User == nil || s.gate.Authorizer == nil {
		return nil
	}
	a.User = r.User
	return auth.Check(ctx, s.gate.Authorizer, a)
}

// permit asks the kind of a request whether its user may write obj in place of old, which is nil where it is created.
func (s *Store) permit(ctx context.Context, r *Request, obj, old Tree) error {
	if hook := r.Definition.Hooks.Permit; hook != nil && r.User != nil {
		return hook(ctx, s, r, obj, old)
	}
	return nil
}

// An Operation is what admission is asked about.
type Operation string

// The operations, as webhooks see them.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// An Admission is asked about the writes of users. Implementations are safe for concurrent use.
type Admission interface {
	// Begin returns who has to say something about a request; nil if nobody has, which must be cheap to tell. It is
	// asked anew when a write is tried again.
	Begin(r *Request, op Operation) Admitter
}

// An Admitter judges one attempt of a request. Errors are those of the Kubernetes API.
type Admitter interface {
	// Mutate may change a.Object, in place or by setting another. It sees the object as the client wants it: defaulted,
	// with managed fields, before the server sets what clients may not choose. Of a deletion there is nothing to change.
	Mutate(ctx context.Context, a *Admitted) error
	// Validate sees the object as it is about to be stored, and changes nothing.
	Validate(ctx context.Context, a *Admitted) error
}

// Admitted is what admission is asked about.
type Admitted struct {
	Request   *Request
	Operation Operation
	// Kind is that of Object and Old, in the version of the request: of a subresource that has bodies of its own, the kind of these.
	Kind schema.GroupVersionKind
	// Name is that of the object; "" if it is still to be generated.
	Name string
	// Object is nil at a deletion, Old at a creation. Old is for reading only.
	Object, Old Tree
	// Options are a *metav1.CreateOptions, UpdateOptions or DeleteOptions, of the kind of the operation: of a patch they are those of
	// the update, or the creation, that it turns out to be. They say what kind they are. Nil for none.
	Options runtime.Object
	// Passes is what mutators know of the pass that they are in.
	Passes Passes
}

// Passes are those that mutators make over an object: one, or two if one of them asks for it because it has changed what others
// before it have seen already. The zero value is the first pass.
type Passes struct {
	// Second says that this is the second pass. There is no third.
	Second bool
	// Again asks for a second pass.
	Again bool

	notes map[any]any
}

// Note returns what a mutator has noted under a key of its own, nil if nothing.
func (p *Passes) Note(key any) any { return p.notes[key] }

// SetNote keeps something for the second pass.
func (p *Passes) SetNote(key, note any) {
	if p.notes == nil {
		p.notes = map[any]any{}
	}
	p.notes[key] = note
}

// Namespace is the one that admission goes by: of a namespace itself, its own name; "" of what has none.
func (a *Admitted) Namespace() string {
	if a.Request.Definition.GroupResource() == namespaces {
		return a.Name
	}
	return a.Request.Namespace
}

// An attempt is what admission is asked about one attempt of a request; nil where nobody asks.
type attempt struct {
	by       Admitter
	admitted Admitted
}

// attempt begins to ask admission about a request. old is nil where the object is new.
func (s *Store) attempt(r *Request, op Operation, old Tree) *attempt {
	if r.User == nil || s.gate.Admission == nil {
		return nil
	}
	by := s.gate.Admission.Begin(r, op)
	if by == nil {
		return nil
	}
	a := &attempt{by: by, admitted: Admitted{Request: r, Operation: op, Kind: r.BodyKind(), Name: r.Name, Old: old, Options: optionsOf(op, r.Options)}}
	if r.OneOfMany {
		a.admitted.Name = ""
	}
	return a
}

// optionsOf are the options of a request as an operation has them.
func optionsOf(op Operation, given runtime.Object) runtime.Object {
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

// mutate returns what admission has made of an object, nil at a deletion, which it uses up.
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

// checkManagedFields puts back what was in the managedFields of an object if somebody has left there what nobody can read.
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

// validate asks about an object as it is to be stored.
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
