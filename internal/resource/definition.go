package resource

import (
	"cmp"
	"context"
	"iter"
	"net/url"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A Tree is the decoded JSON of an object: map[string]any, []any, string, bool, int64, float64 and
// nil. A function that gets a Tree as obj may change it; one named old must not be changed.
type Tree = map[string]any

// A Definition is one kind of resource, built-in or custom. It is immutable: a changed CRD results
// in a new one.
type Definition struct {
	Group      string // under which objects are kept; versions may be served in others
	Plural     string
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	Custom     bool // defined by a CRD
	// StoredAt is the prefix of the objects in the etcd of kube-apiserver, as in object.Place.Path.
	// Default: group/plural.
	StoredAt string

	// DefinedBy is the key of the CRD that defines a custom resource, and DefinedByUID its uid.
	// Objects are created only while the CRD exists and is not being deleted.
	DefinedBy    object.Key
	DefinedByUID types.UID
	// Terminating says that the CRD is being deleted: no new objects are accepted.
	Terminating bool

	// Versions are the served versions, the preferred one first.
	Versions []*Version
	// Storage is the version in which objects are stored. It may be one that is not served.
	Storage *Version
	// Unserved are the versions that are not served. Objects may still be stored in them, and managed
	// fields may name them.
	Unserved []*Version

	// Convert converts an object from one version to another, in place, except for its apiVersion. Its
	// result depends on nothing else, and is cached. Nil if versions differ only in the apiVersion.
	Convert func(obj Tree, from, to *Version) error
	// Webhook, if not nil, converts instead of Convert. It takes time, may fail, and may return
	// another result the next time. Each of objs has the apiVersion that it is in, none of them the
	// wanted one. They are used up. The results are in the same order and in the wanted version, with
	// the same metadata except for labels and annotations.
	Webhook func(ctx context.Context, objs []Tree, to *Version) ([]Tree, error)

	// Action is set for kinds that store no objects: create is their only verb.
	Action *Action
	// Strategy and Deletion are the few places in which kinds differ.
	Strategy Strategy
	Deletion Deletion
	// Given holds the dependencies of the kind besides the store, for the functions of its Strategy
	// and its actions, which are shared by all definitions of the kind. The verbs do not use it.
	Given any

	retired chan struct{} // closed when the registry drops the definition
}

// A Version is one version of a resource. It is immutable.
type Version struct {
	Name string
	// Group is the group of the version if it is not that of the definition, but one from which the
	// kind has moved, or to which.
	Group string
	Model Model

	// Subresources read and write parts of the object. "scale" is not among them, see Scale.
	Subresources []Subresource
	Scale        *Scale
	// Connections are subresources whose requests another program serves.
	Connections []Connection

	// Published is the schema of a custom resource in OpenAPI documents; nil for built-in kinds, whose
	// schemas are compiled in.
	Published *Published

	// Columns are the columns of a table; the first is the name. Cells returns one value for each
	// column.
	Columns []metav1.TableColumnDefinition
	Cells   func(obj Tree, now time.Time) []any
	// RowConditions returns the conditions of a row, such as Completed. May be nil.
	RowConditions func(obj Tree) []metav1.TableRowCondition
	// Default returns the name of the object of a list that is used where none is named, "" for none.
	// Tables mark it.
	Default func(list []*object.Object) string
	// Order returns the objects of a list in the order of rows in a Table. Default: ordered by name.
	Order func(list []*object.Object) []*object.Object

	// Selectable are the field labels, besides metadata.name and metadata.namespace, that field
	// selectors may name. Fields returns their values, "" where absent. FieldPaths are the paths that
	// Fields reads; nil for all.
	Selectable []string
	Fields     func(obj Tree) map[string]string
	FieldPaths object.FieldPaths
	// NotByNamespace says that objects cannot be selected by metadata.namespace. Unselectable is
	// the message for labels that field selectors may not name, with a verb for the label. Default:
	// the usual message of Kubernetes.
	NotByNamespace bool
	Unselectable   string

	// Warning is sent with every answer of a deprecated version; "" for others.
	Warning string

	// ResetFields are the fields that clients cannot write through the main resource, and that no
	// field manager owns there. May be nil.
	ResetFields *fieldpath.Set
}

// Published is the schema of one version of a custom resource, as its CRD states it.
type Published struct {
	// Fingerprint differs for schemas that differ, if only in a description.
	Fingerprint string
	// Schema returns the JSON of the schema (a JSONSchemaProps), nil if there is none.
	Schema func() ([]byte, error)
	// PreserveUnknownFields is the field of that name in the CRD's spec.
	PreserveUnknownFields bool
}

// A Model is the schema of one version of a kind. Implementations are safe for concurrent use, and
// load what they need on first use.
type Model interface {
	Decoder
	Validator
	Structure
	// Fingerprint identifies the model by its content: objects that were normalised by a model with
	// the same fingerprint are not normalised again. It is never 0.
	Fingerprint() uint64
}

// A Decoder is the part of a Model that decodes objects into normalised trees.
type Decoder interface {
	// Decode decodes JSON into a normalised tree. Unless strict is nil, an error for each unknown or
	// duplicate field is appended to it. Clients see the error that is returned.
	Decode(data []byte, strict *[]error) (Tree, error)
	// Normalise removes unknown fields, fills in defaults, and returns the result, which may be obj
	// itself. Unless strict is nil, an error for each removed field is appended to it.
	Normalise(obj Tree, strict *[]error) (Tree, error)
	// Prune removes unknown fields from an object that has been converted from another version. It
	// does not fill in defaults.
	Prune(obj Tree) (Tree, error)
	// New returns an empty object of the Go type of a built-in kind, which has a protobuf form; nil
	// for custom resources.
	New() runtime.Object
}

// A Validator is the part of a Model that checks normalised trees.
type Validator interface {
	// Validate returns the errors of an object, except for those of its ObjectMeta. old is nil on
	// create. subresource is "" for the main resource. If ctx has ended, the result is undefined.
	Validate(ctx context.Context, obj, old Tree, subresource string) field.ErrorList
}

// A Structure is the part of a Model that defines how objects are merged: which fields are lists,
// maps or atoms, and the keys that identify the items of a list.
type Structure interface {
	// FieldTypes returns the types that field management needs, for all versions of the kind.
	FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error)
	// PatchMeta returns the merge keys of strategic merge patch; nil if that patch is not supported.
	PatchMeta() strategicpatch.LookupPatchMeta
}

// A RatchetingValidator is a Model whose validation depends on the errors of the ObjectMeta, and
// that sends warnings for errors it tolerates because they are old. ValidateAfter is called instead
// of Validate; found are the errors of the ObjectMeta.
type RatchetingValidator interface {
	ValidateAfter(ctx context.Context, found field.ErrorList, obj, old Tree, subresource string, warn func(string)) field.ErrorList
}

// A Completer is a Model whose validation sees the nulls of an applied object. Complete is called
// instead of Normalise then, and keeps forbidden nulls of fields without a default.
type Completer interface {
	Complete(obj Tree) (Tree, error)
}

// A Defaulter is a Model of objects that have no Go type. Default sets defaults of fields that are
// absent, or null although the schema forbids it, and returns obj, which need not be normalised.
type Defaulter interface {
	Default(obj Tree) (Tree, error)
}

// A TypedModel is a Model that also decodes objects of its Go type. TreeOf is Decode for an object
// of the type of New, and takes ownership of it.
type TypedModel interface {
	TreeOf(obj runtime.Object) (Tree, error)
}

// A Subresource is a view of an object through which a part of it is written.
type Subresource struct {
	Name string
	// Prepare restores the fields that may not be written through this subresource. It is called
	// instead of Strategy.PrepareUpdate.
	Prepare func(obj, old Tree)
	// ResetFields are the fields that Prepare restores.
	ResetFields *fieldpath.Set
	// UpdateOnly says that the subresource is only written by update (PUT).
	UpdateOnly bool
	// Action, if not nil, is what a create (POST) does; there are no other verbs then.
	Action *Action
}

// An Action is a create that does not store the object which the client sends: bind a pod, evict
// it, review access. Its body is of a kind of its own.
type Action struct {
	Kind  schema.GroupVersionKind
	Model Model
	// Also are other versions that bodies may be in, with the same fields.
	Also []schema.GroupVersion
	// Managed says that the answer shows the body, which therefore gets managed fields.
	Managed bool
	// Do executes the action. body has the namespace of the request, and the name that the client
	// has sent. The error is a Kubernetes API error.
	Do func(ctx context.Context, s *Store, r *Request, body Tree) (Result, error)
}

// A Connection is a subresource whose requests are passed on: to the kubelet of a pod, to a node, a
// pod or a service.
type Connection struct {
	Name string
	// Kind is that of the parameters, and Model their model. Shown is the kind that discovery names
	// instead, "" for none.
	Kind  schema.GroupVersionKind
	Model Model
	Shown string
	// Methods are the HTTP methods of requests.
	Methods []string
	// Below says that the path may continue after the name of the subresource, and that the name in
	// the path may have a scheme and a port: [SCHEME:]NAME[:PORT].
	Below bool
	// Upgrades says that a request must ask for another protocol. The user needs permission to create
	// the subresource, whatever the method.
	Upgrades bool
	// Decode decodes the parameters of a request. below is the rest of its path.
	Decode func(query url.Values, below string) (Tree, error)
	// Admitted says that admission admits the parameters, and may change them.
	Admitted bool
}

// Scale is the view through which an object is scaled. Paths are the keys from
// the root of the object on.
type Scale struct {
	Replicas       []string
	StatusReplicas []string
	Selector       []string              // of a string; nil if there is none
	SelectorOf     func(obj Tree) string // instead of Selector, where it must be computed
}

// A Strategy defines how objects of a kind are created and updated. Its fields are in the order in
// which a write uses them; each of them may be zero.
type Strategy struct {
	// CreateOnUpdate lets an update (PUT) create an object. UnconditionalUpdate lets it overwrite one
	// without a resourceVersion.
	CreateOnUpdate      bool
	UnconditionalUpdate bool
	// Permit checks whether the user of the request may write obj, as it comes from admission, in
	// place of old, which is nil on create. It changes nothing, and returns a Kubernetes API error.
	Permit func(ctx context.Context, s *Store, r *Request, obj, old Tree) error
	// PrepareCreate and PrepareUpdate set what clients may not choose: status, generation, computed
	// fields. obj is normalised.
	PrepareCreate func(obj Tree)
	PrepareUpdate func(obj, old Tree)
	// PrepareRequester records in a new object the user who requests it. It runs after PrepareCreate.
	// u is never nil.
	PrepareRequester func(obj Tree, u User)
	// ValidateName returns the errors of a name, or with prefix of a generateName. Default: those of a
	// DNS-1123 subdomain.
	ValidateName func(name string, prefix bool) []string
	// ValidatesMetadataTwice reports each error of the metadata of an update twice. Kubernetes does so
	// for CustomResourceDefinitions, as for all custom resources.
	ValidatesMetadataTwice bool
	// Warnings are sent with the answer to a valid write. old is nil on create.
	Warnings func(obj, old Tree) []string
	// Claim adds what must be written in the same commit as a valid object, and may set in obj what it
	// has claimed. old is nil on create, and obj where the object is removed. An update that only sets
	// the deletionTimestamp claims nothing. The error is a Kubernetes API error.
	Claim func(c *Claims, obj, old Tree) error
	// TTL is the time after its last write at which an object expires. Default: never.
	TTL time.Duration
}

// A Deletion defines how objects of a kind are deleted. Each of its fields may be zero: then
// objects are removed at once, and their dependents by the garbage collector.
type Deletion struct {
	// Allow refuses deletions; the error is a Kubernetes API error.
	Allow func(o *object.Object) error
	// Grace returns the grace period in seconds of the deletion of obj. asked is that of the request,
	// which is nil if it names none, and never negative. Default: no grace period.
	Grace func(obj Tree, asked *int64) int64
	// OrphanByDefault orphans the dependents of a deleted object unless the request sets another
	// propagation policy. OrphanWarning is the warning that such a request gets.
	OrphanByDefault bool
	OrphanWarning   string
	// Finalization lets a deletion wait for more than metadata.finalizers.
	Finalization *Finalization
	// ReturnsObject answers a deletion with the object instead of a Status.
	ReturnsObject bool
}

// A Finalization is how a kind finalizes its objects besides metadata.finalizers, as namespaces and
// CustomResourceDefinitions do.
type Finalization struct {
	// Waits reports whether the deletion of obj has to wait.
	Waits func(obj Tree) bool
	// Begin marks an object whose deletion begins to wait: a namespace gets the phase Terminating, a
	// CustomResourceDefinition a condition. Of the metadata only the deletionTimestamp has been set.
	Begin func(obj Tree)
}

// waits reports whether the kind's own finalization lets the deletion of obj wait.
func (f *Finalization) waits(obj Tree) bool { return f != nil && f.Waits(obj) }

// GroupResource returns the resource in the group under which its objects are stored.
func (d *Definition) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: d.Group, Resource: d.Plural}
}

// GroupVersion returns the group and name of a version.
func (d *Definition) GroupVersion(v *Version) schema.GroupVersion {
	return schema.GroupVersion{Group: cmp.Or(v.Group, d.Group), Version: v.Name}
}

// GroupVersionKind returns the kind in a version.
func (d *Definition) GroupVersionKind(v *Version) schema.GroupVersionKind {
	return d.GroupVersion(v).WithKind(d.Kind)
}

// APIVersion returns the apiVersion of objects in a version.
func (d *Definition) APIVersion(v *Version) string { return d.GroupVersion(v).String() }

// Version returns the served version of that name, or nil.
func (d *Definition) Version(gv schema.GroupVersion) *Version {
	for _, v := range d.Versions {
		if d.GroupVersion(v) == gv {
			return v
		}
	}
	return nil
}

// In reports whether the resource is served in a group.
func (d *Definition) In(group string) bool {
	return d.Group == group || slices.ContainsFunc(d.Versions, func(v *Version) bool { return v.Group == group && group != "" })
}

// Groups yields the groups in which the resource is served, its own first.
func (d *Definition) Groups() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(d.Group) {
			return
		}
		for i, v := range d.Versions {
			known := v.Group == "" || slices.ContainsFunc(d.Versions[:i], func(before *Version) bool { return before.Group == v.Group })
			if !known && !yield(v.Group) {
				return
			}
		}
	}
}

// Key returns the key of an object of this resource.
func (d *Definition) Key(namespace, name string) object.Key {
	if !d.Namespaced {
		namespace = ""
	}
	return object.Key{Resource: d.GroupResource(), Namespace: namespace, Name: name}
}

// AsTerminating returns a copy of the definition for a CRD that is being deleted. It can replace d
// without ending watches.
func (d *Definition) AsTerminating() *Definition {
	terminating := *d
	terminating.Terminating = true
	return &terminating
}

// Retired returns a channel that is closed when the definition is no longer served, because the
// resource has been removed or has another definition. Watches end then.
func (d *Definition) Retired() <-chan struct{} { return d.retired }

// Subresource returns a subresource by name, nil if there is none.
func (v *Version) Subresource(name string) *Subresource {
	for i := range v.Subresources {
		if v.Subresources[i].Name == name {
			return &v.Subresources[i]
		}
	}
	return nil
}

// Connection returns a connection by name, nil if there is none.
func (v *Version) Connection(name string) *Connection {
	for i := range v.Connections {
		if v.Connections[i].Name == name {
			return &v.Connections[i]
		}
	}
	return nil
}
