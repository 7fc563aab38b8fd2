package openapi

import (
	"slices"
	"strings"
	"sync"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Snapshot is the content of all documents. It must not change after it was passed to the handler.
type Snapshot struct {
	// Version is the release of Kubernetes that the server behaves as, such as 1.37.
	Version   string
	Resources []Resource
	// Foreign are the descriptions by other servers. They take precedence.
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

	// DeleteAnswersObject reports whether the response to a deletion is the object, not a Status.
	DeleteAnswersObject bool

	// Custom is nil for a built-in kind, whose schema is compiled in.
	Custom *Custom
}

// Subresource is a subresource. If the name of its kind ends in Options, it is a connection, as
// exec and proxy are.
type Subresource struct {
	Name  string // status, scale, ...
	Kind  schema.GroupVersionKind
	Verbs []string
}

// Custom has the attributes of custom kinds.
type Custom struct {
	// Fingerprint changes when one of the fields below changes.
	Fingerprint string
	// Schema returns the JSON of the structural schema of the version (JSONSchemaProps), or nothing
	// if there is none or it is not structural.
	Schema func() ([]byte, error)
	// PreserveUnknownFields is the field of that name in the definition's spec.
	PreserveUnknownFields bool
	// SelectableFields are JSON paths, such as .spec.color.
	SelectableFields []string
}

func (r *Resource) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// root is the path of the group version, without slashes around it: api/v1, apis/apps/v1. It is
// also the name of the document.
func (r *Resource) root() string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.Group + "/" + r.Version
}

// definition returns the name of the definition of a kind of the resource.
func (r *Resource) definition(kind string) string {
	if r.Custom != nil {
		labels := strings.Split(r.Group, ".")
		slices.Reverse(labels)
		return strings.Join(labels, ".") + "." + r.Version + "." + kind
	}
	return kindsopenapi.Builtin().NameOf(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind})
}
