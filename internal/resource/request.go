package resource

import (
	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Request is what all verbs are told: what they act on, and for whom.
type Request struct {
	Definition  *Definition
	Version     *Version // the one in which the client speaks
	Namespace   string   // "" for cluster-scoped resources and for all namespaces
	Name        string   // "" for collections
	Subresource string

	// User is on whose behalf the request is made; nil for the server itself, which nobody has to admit.
	User *auth.User
	// Options are those of the request, as admission shows them: a *metav1.CreateOptions, UpdateOptions, PatchOptions or
	// DeleteOptions. Nil for none.
	Options runtime.Object
	// Annotate adds an annotation to the audit of the request; nil if there is none.
	Annotate func(key, value string)
	// Decoded is shown the object that came with the request, to read; nil if nobody wants to see it.
	Decoded func(body Tree)

	// Manager is the name under which fields are managed: the fieldManager
	// parameter, or what the user agent says.
	Manager string
	// FieldValidation is Ignore, Warn or Strict.
	FieldValidation string
	DryRun          bool
	// OneOfMany says that the object is one of those that a deletion of many deletes, which admission is not told the name of.
	OneOfMany bool
	// Exact says that a write ends in ErrReplaced once the resource has another
	// definition than this one, whose schema may know fewer fields than objects have
	// by then.
	Exact bool
	// Warn receives warnings for the client; never nil.
	Warn func(string)

	generated bool // the name of the object to create is the server's
	changes   bool // an update or apply creates the object, for which its user needs to be allowed to create, too
}

// Key is the key of the object that the request names.
func (r *Request) Key() object.Key { return r.Definition.Key(r.Namespace, r.Name) }

// GroupResource names the resource in the group in which the client speaks, for errors.
func (r *Request) GroupResource() schema.GroupResource {
	return r.groupVersion().WithResource(r.Definition.Plural).GroupResource()
}

func (r *Request) groupVersion() schema.GroupVersion { return r.Definition.GroupVersion(r.Version) }

// A Result is the answer to a request about one object. One of its fields is set.
type Result struct {
	Object *object.Object
	Tree   Tree           // an object that is not stored, complete, of the kind of the request's bodies
	Status *metav1.Status // of a deletion
	// Created says that the object is new (201 Created).
	Created bool
	// Pending says that a deletion waits, for finalizers or for grace to end.
	Pending bool

	committed bool // the journal has taken it
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
