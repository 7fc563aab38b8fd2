package resource

import (
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A User is the user who sends a request. The verbs only check whether there is one: kinds,
// admission and [Gate].PermitCreate decide what the user is allowed to do.
type User interface {
	// GetName returns the name of the user.
	GetName() string
	// GetUID returns what tells the user from others that have had the name; it may be empty.
	GetUID() string
	// GetGroups returns the groups of the user.
	GetGroups() []string
	// GetExtra returns further attributes, which authorizers and webhooks may use.
	GetExtra() map[string][]string
}

// A Request holds the parameters of all verbs: the resource, the object, and the user.
type Request struct {
	Definition  *Definition
	Version     *Version // the one in which the client speaks
	Namespace   string   // "" for cluster-scoped resources and for all namespaces
	Name        string   // "" for collections
	Subresource string

	// User sends the request; nil for the server itself, whose requests are not admitted.
	User User
	// Options are those of the request, for admission: a *metav1.CreateOptions, *metav1.UpdateOptions,
	// *metav1.PatchOptions or *metav1.DeleteOptions. Nil for none.
	Options runtime.Object
	// Annotate adds an annotation to the audit event of the request; nil if it is not audited.
	Annotate func(key, value string)
	// Hooked is called in the goroutine of the request with the time for which admission webhooks have
	// been called. May be nil.
	Hooked func(time.Duration)
	// Decoded is called with the decoded body of the request, which it must not change. May be nil.
	Decoded func(body Tree)

	// Manager is the field manager: the fieldManager parameter, or the name from the user agent.
	Manager string
	// FieldValidation is Ignore, Warn or Strict.
	FieldValidation string
	DryRun          bool
	// OneOfMany says that the request is part of a deletecollection, where admission sees no name.
	OneOfMany bool
	// Exact lets a write fail with ErrReplaced if the resource has another definition by then, whose
	// objects may have fields that this one does not know.
	Exact bool
	// While is an object that must exist when the write commits. The zero value requires none.
	While Holding
	// Warn receives warnings for the client; never nil.
	Warn func(string)
}

// A Holding is a precondition of a write: the object with this key and uid exists. A program whose
// right to act is an object, such as a Lease, sends it with its writes, so that none of them
// commits after the object has been deleted.
type Holding struct {
	Key object.Key
	UID types.UID
}

// Key returns the key of the object that the request names.
func (r *Request) Key() object.Key { return r.Definition.Key(r.Namespace, r.Name) }

// GroupResource returns the resource in the group of the request, for errors.
func (r *Request) GroupResource() schema.GroupResource {
	return r.groupVersion().WithResource(r.Definition.Plural).GroupResource()
}

func (r *Request) groupVersion() schema.GroupVersion { return r.Definition.GroupVersion(r.Version) }

// A Result is the answer to a request about one object. One of its fields is set.
type Result struct {
	Object *object.Object
	Tree   Tree           // an object that is not stored, complete, of the kind of the request's bodies
	Status *metav1.Status // of a deletion
	// Created says that the object has been created (201 Created).
	Created bool
	// Pending says that a deletion waits for finalizers or for the end of the grace period.
	Pending bool

	committed bool // the journal has taken it

	// written is the tree from which Object was encoded, in the version writtenIn; nil if there is
	// none that Object is decoded to. Form uses it up.
	written   Tree
	writtenIn *Version
}

func (r Result) done() Result {
	r.committed = true
	return r
}

// ListOptions are the parameters of list and deletecollection.
type ListOptions struct {
	Labels               labels.Selector
	Fields               fields.Selector
	Limit                int64
	Continue             string
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
}

// A List is a page of objects.
type List struct {
	Objects   []*object.Object
	Revision  object.Revision
	Continue  string
	Remaining *int64
}

// WatchOptions are the parameters of watch.
type WatchOptions struct {
	Labels            labels.Selector
	Fields            fields.Selector
	ResourceVersion   string
	SendInitialEvents *bool
	Bookmarks         bool
}
