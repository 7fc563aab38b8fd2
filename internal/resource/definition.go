package resource

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/manage"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A Tree is the decoded JSON of an object: map[string]any, []any, string, bool,
// int64, float64 and nil. Whoever gets a Tree as "obj" may change it; "old" is
// for reading only.
type Tree = map[string]any

// A Definition is one kind of resource, built-in or custom. It is immutable; a
// changed CRD makes a new one.
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

	// DefinedBy is the key of the CRD that defines a custom resource, and
	// DefinedByUID its uid. Objects are created only as long as it is there and not
	// on its way out.
	DefinedBy    object.Key
	DefinedByUID types.UID
	// Terminating says that the CRD is on its way out: nothing new is accepted.
	Terminating bool

	// Versions are the served ones, the preferred first.
	Versions []*Version
	// Storage is the version in which objects are stored. It need not be served.
	Storage *Version
	// Unserved are the versions that are not served. Objects may still be stored in
	// them, and managed fields name them.
	Unserved []*Version

	// Convert changes an object of one version into another, in place; it need not
	// set apiVersion. What it makes of an object is always the same, and so is kept.
	// Nil if versions differ in nothing else.
	Convert func(obj Tree, from, to *Version) error
	// Webhook, if there is one, converts instead of Convert: somebody outside, who
	// takes time, may fail, and may answer otherwise next time. Each object says in
	// its apiVersion what it is in, none that it is in the wanted version. They are
	// used up; the results come in the same order, in the wanted version, with the
	// metadata that they had but for labels and annotations.
	Webhook func(ctx context.Context, objs []Tree, to *Version) ([]Tree, error)

	// Action is set where nothing is kept: then all that clients can do is create.
	Action *Action
	// Absent are subresources that Kubernetes has and this server has not, with the reason, which clients are told.
	Absent map[string]string
	// Hooks are the few places in which kinds differ.
	Hooks Hooks

	retired chan struct{} // closed when the registry drops the definition
}

// A Version is one version of a resource. It is immutable.
type Version struct {
	Name string
	// Group is where the version is served if that is not the group of its
	// definition, but one from which the kind has moved, or to which.
	Group string
	Model Model

	// Subresources through which parts of the object are read and written.
	// "scale" is not among them, see Scale.
	Subresources []Subresource
	Scale        *Scale

	// Published is what OpenAPI documents show of the schema of a custom resource;
	// nil for built-in kinds, whose schemas the program has.
	Published *Published

	// Columns are the cells of a table after the name, which is always the first
	// cell and belongs to the columns. Cells returns one value a column.
	Columns []metav1.TableColumnDefinition
	Cells   func(obj Tree, now time.Time) []any
	// RowConditions say what is the matter with a row as a whole; nil if there is
	// never anything to say.
	RowConditions func(obj Tree) []metav1.TableRowCondition
	// Default names the object of a list that counts where none is named, "" if none
	// does. Tables of lists mark it.
	Default func(list []*object.Object) string
	// Order returns the objects of a list in the order in which a Table shows them. Nil: in that of their names.
	Order func(list []*object.Object) []*object.Object

	// Selectable are the field labels, besides metadata.name and
	// metadata.namespace, that field selectors may name; Fields returns their
	// values, "" where absent.
	Selectable []string
	Fields     func(obj Tree) map[string]string
	// NotByNamespace says that objects cannot be selected by metadata.namespace. Unselectable is what clients are told of a label
	// that field selectors may not name, with a verb for the label; by default in Kubernetes' usual words.
	NotByNamespace bool
	Unselectable   string

	// Warning is sent with every answer of a deprecated version; "" if it is not.
	Warning string

	// ResetFields are the fields that the main resource does not let clients
	// write; nobody comes to own them there. Nil resets nothing.
	ResetFields *fieldpath.Set
}

// Published is the schema of one version of a custom resource, as its CRD states it.
type Published struct {
	// Fingerprint is another when any of the schema is, descriptions included.
	Fingerprint string
	// Schema returns the JSON of the schema (a JSONSchemaProps), nothing if there
	// is none.
	Schema func() ([]byte, error)
	// PreserveUnknownFields is the field of that name in the CRD's spec.
	PreserveUnknownFields bool
}

// A Model knows what the objects of one version may hold. Implementations are
// safe for concurrent use, and load what they need on first use.
type Model interface {
	// Fingerprint identifies the model by content: objects normalised with the
	// same one need not be normalised again. It is never 0.
	Fingerprint() uint64
	// Decode decodes JSON into a normalised tree. Unless strict is nil, it
	// receives an error for each unknown or duplicate field. The error is what a
	// client is told about bytes that cannot be decoded at all.
	Decode(data []byte, strict *[]error) (Tree, error)
	// Normalise drops what the schema does not know and fills in defaults, and
	// returns the result, which may be obj itself. Unless strict is nil it
	// receives an error for each field dropped.
	Normalise(obj Tree, strict *[]error) (Tree, error)
	// Prune drops what the schema does not know from an object that comes from
	// another version, and fills in no defaults.
	Prune(obj Tree) (Tree, error)
	// Validate returns what is wrong with an object, beyond its ObjectMeta. old
	// is nil on create. subresource is "" for the main resource.
	Validate(obj, old Tree, subresource string) field.ErrorList
	// FieldTypes is what field management needs to know of the schemas of the kind, in all its versions.
	FieldTypes() (func(schema.GroupVersionKind) *manage.Type, error)
	// PatchMeta has the merge keys of strategic merge patch; nil where that patch
	// is not supported.
	PatchMeta() strategicpatch.LookupPatchMeta
	// New returns an empty object of the Go type of a built-in kind, which has a
	// protobuf form; nil for custom resources.
	New() runtime.Object
}

// A Judge is a Model whose verdict depends on what was found before, and that warns of what is wrong but excused.
// ValidateAfter is asked instead of Validate; found is what is wrong with the ObjectMeta.
type Judge interface {
	ValidateAfter(found field.ErrorList, obj, old Tree, subresource string, warn func(string)) field.ErrorList
}

// A TypedModel is a Model that decodes objects of its Go type, too. TreeOf is Decode for an object that New has made and somebody has filled; obj
// belongs to it from then on.
type TypedModel interface {
	TreeOf(obj runtime.Object) (Tree, error)
}

// A Subresource is a view on an object through which a part of it is written.
type Subresource struct {
	Name string
	// Prepare puts back what may not be written through this subresource. It runs
	// instead of Hooks.PrepareUpdate.
	Prepare func(obj, old Tree)
	// ResetFields are the fields that Prepare puts back.
	ResetFields *fieldpath.Set
	// UpdateOnly says that the subresource is only written by update (PUT).
	UpdateOnly bool
	// Action is what a create (POST) does; there are no other verbs then.
	Action *Action
}

// An Action is what a create does that stores no object of the kind that the client
// sends: bind a pod, evict it, review an access. Its body is of a kind of its own.
type Action struct {
	Kind  schema.GroupVersionKind
	Model Model
	// Also are other versions that bodies may name; they say the same in all of them.
	Also []schema.GroupVersion
	// Managed says that the body is shown in the answer, and so gets managed fields as what is stored does.
	Managed bool
	// Do acts for a request whose body has been decoded and has its namespace; the
	// name in it is what the client has sent. The error is a Kubernetes API error.
	Do func(ctx context.Context, s *Store, r *Request, body Tree) (Result, error)
}

// Scale is the view through which an object is scaled. Paths are the keys from
// the root of the object on.
type Scale struct {
	Replicas       []string
	StatusReplicas []string
	Selector       []string              // of a string; nil if there is none
	SelectorOf     func(obj Tree) string // instead of Selector, where it must be computed
}

// Hooks are what is special about a kind. Every field may be left zero.
type Hooks struct {
	// ValidateName judges a name, or with prefix a generateName. Default: a DNS-1123 subdomain.
	ValidateName func(name string, prefix bool) []string
	// Permit is asked whether the user of a request may write obj, as it comes from admission, in place of old, which is nil
	// where it is created. It changes nothing. The error is a Kubernetes API error.
	Permit func(ctx context.Context, s *Store, r *Request, obj, old Tree) error
	// PrepareCreate and PrepareUpdate set what clients may not choose: status,
	// generation, computed fields. obj is normalised.
	PrepareCreate func(obj Tree)
	PrepareUpdate func(obj, old Tree)
	// Requested writes into a new object who has asked for it. It runs after PrepareCreate; u is never nil.
	Requested func(obj Tree, u *auth.User)
	// Claim is asked of a write that is valid what else must be written with it. It may
	// set in obj what it has claimed. old is nil where an object is created, obj where
	// it goes; a mark of deletion is no reason to ask. The error is a Kubernetes API
	// error.
	Claim func(c *Claims, obj, old Tree) error
	// Warnings are sent with a write that went well; old is nil on create.
	Warnings func(obj, old Tree) []string

	// ChecksMetadataAgain says that Kubernetes judges the metadata of an update once more for this kind, and so finds every error
	// twice. It does so for all custom resources.
	ChecksMetadataAgain bool

	// CreateOnUpdate lets PUT create, UnconditionalUpdate lets it overwrite without
	// a resourceVersion.
	CreateOnUpdate      bool
	UnconditionalUpdate bool

	// Grace is the default grace period of a deletion, by object; nil means that
	// objects of this kind are deleted at once.
	Grace func(obj Tree) int64
	// OrphanByDefault keeps dependents unless the request says otherwise; then
	// OrphanWarning tells the client so.
	OrphanByDefault bool
	OrphanWarning   string
	// Finalize is asked whether a deletion must wait although metadata.finalizers
	// is empty (namespaces: spec.finalizers).
	Finalize func(obj Tree) bool
	// PrepareDelete marks an object of a kind that has finalization of its own when
	// it starts to wait (namespaces: phase Terminating; CRDs: condition
	// Terminating). Of the metadata only the deletionTimestamp has been set.
	PrepareDelete func(obj Tree)
	// DeleteReturnsObject: deleting answers with the object, not with a Status.
	DeleteReturnsObject bool
	// AllowDelete refuses deletions; the error is a Kubernetes API error.
	AllowDelete func(o *object.Object) error
	// TTL is how long objects live after their last write; 0 for ever.
	TTL time.Duration
}

// GroupResource names the resource as it is kept.
func (d *Definition) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: d.Group, Resource: d.Plural}
}

// GroupVersion names a version.
func (d *Definition) GroupVersion(v *Version) schema.GroupVersion {
	return schema.GroupVersion{Group: cmp.Or(v.Group, d.Group), Version: v.Name}
}

// GroupVersionKind names the kind in a version.
func (d *Definition) GroupVersionKind(v *Version) schema.GroupVersionKind {
	return d.GroupVersion(v).WithKind(d.Kind)
}

// APIVersion is the apiVersion of objects in a version.
func (d *Definition) APIVersion(v *Version) string { return d.GroupVersion(v).String() }

// Version returns a served version, nil if it is not served.
func (d *Definition) Version(gv schema.GroupVersion) *Version {
	for _, v := range d.Versions {
		if d.GroupVersion(v) == gv {
			return v
		}
	}
	return nil
}

// In says whether the resource is served in a group.
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

// Key is the key of an object of this resource.
func (d *Definition) Key(namespace, name string) object.Key {
	if !d.Namespaced {
		namespace = ""
	}
	return object.Key{Resource: d.GroupResource(), Namespace: namespace, Name: name}
}

// AsTerminating returns the definition as it is once its CRD is on its way out.
// It takes the place of d without ending watches.
func (d *Definition) AsTerminating() *Definition {
	terminating := *d
	terminating.Terminating = true
	return &terminating
}

// Retired is closed when the definition is no longer served: the resource is
// gone or has a new definition. Watches end then.
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
