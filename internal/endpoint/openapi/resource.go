package openapi

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	builtin "github.com/kapok-dev/kapok/internal/builtin/openapi"
)

// Snapshot is all that the documents describe. It is not changed after it has been handed over.
type Snapshot struct {
	// Version is the server's, as v1.37.2+kapok.
	Version   string
	Resources []Resource
	// Foreign is what other servers describe. It counts where both do.
	Foreign []Foreign

	once  sync.Once
	parts map[string]*part
	hash  string
}

// Resource is one resource in one version.
type Resource struct {
	Group, Version, Plural, Kind, ListKind string

	Namespaced   bool
	Verbs        []string // as in discovery: list, watch, create, ...
	Subresources []Subresource

	// DeleteAnswersObject says that a deletion is answered with the object and not with a Status.
	DeleteAnswersObject bool

	// Custom is nil for a built-in kind, whose schema the program has.
	Custom *Custom
}

// Subresource is below an object. A kind whose name ends with Options makes it a connection, as exec or proxy are.
type Subresource struct {
	Name  string // status, scale, ...
	Kind  schema.GroupVersionKind
	Verbs []string
}

// Custom is what only a custom kind has.
type Custom struct {
	// Fingerprint stands for all of the fields below: it is another when one of them is.
	Fingerprint string
	// Schema returns the JSON of the version's structural schema (JSONSchemaProps), and nothing if there is none or it is
	// not structural.
	Schema func() ([]byte, error)
	// PreserveUnknownFields is the field of that name in the definition's spec.
	PreserveUnknownFields bool
	// SelectableFields are the JSON paths, as .spec.color.
	SelectableFields []string
}

func (r *Resource) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// root is the path of the group version, without slashes around it: api/v1, apis/apps/v1. It is the document's name too.
func (r *Resource) root() string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.Group + "/" + r.Version
}

// definition is the name of the definition of one of the resource's own kinds.
func (r *Resource) definition(kind string) string {
	if r.Custom != nil {
		labels := strings.Split(r.Group, ".")
		slices.Reverse(labels)
		return strings.Join(labels, ".") + "." + r.Version + "." + kind
	}
	return builtin.Builtin().NameOf(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind})
}
