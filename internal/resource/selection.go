package resource

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selection is the objects that a list or watch is about: those of a namespace
// or all, which labels and fields select.
type selection struct {
	definition *Definition
	version    *Version
	namespace  string
	name       string          // "" for any
	labels     labels.Selector // nil for everything
	fields     fields.Selector // nil for everything; without name and namespace
}

// newSelection checks the selectors of a request.
func newSelection(r *Request, label labels.Selector, field fields.Selector) (*selection, error) {
	s := &selection{definition: r.Definition, version: r.Version, namespace: r.Namespace, name: r.Name}
	if !r.Definition.Namespaced {
		s.namespace = ""
	}
	if label != nil && !label.Empty() {
		s.labels = label
	}
	if field == nil || field.Empty() {
		return s, nil
	}
	for _, req := range field.Requirements() {
		if !s.selectable(req.Field) {
			return nil, s.unsupported(req.Field)
		}
	}
	s.fields = field
	return s, nil
}

func (s *selection) unsupported(field string) error {
	if !s.definition.Custom && len(s.version.Selectable) == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, field))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", field))
}

func (s *selection) selectable(field string) bool {
	switch field {
	case "metadata.name":
		return true
	case "metadata.namespace":
		return s.definition.Namespaced || !s.definition.Custom
	}
	for _, f := range s.version.Selectable {
		if f == field {
			return true
		}
	}
	return false
}

// everything says that nothing but the namespace restricts the selection.
func (s *selection) everything() bool { return s.labels == nil && s.fields == nil && s.name == "" }

// mayMatch says whether an object, which may be nil, has the right name and
// namespace, which are the same in all versions.
func (s *selection) mayMatch(o *object.Object) bool {
	return o != nil && (s.namespace == "" || o.Key.Namespace == s.namespace) && (s.name == "" || o.Key.Name == s.name)
}

// matches says whether the selection holds an object; it may be nil. It can be
// decoded in the version of the request.
func (s *selection) matches(o *object.Object) bool {
	if !s.mayMatch(o) {
		return false
	}
	if s.labels != nil && !s.labels.Matches(&o.Meta.Labels) {
		return false
	}
	return s.fields == nil || s.fields.Matches(&fieldsOf{selection: s, object: o})
}

// fieldsOf shows the fields of an object to a selector; it decodes the object
// only if a field other than its name is asked for.
type fieldsOf struct {
	selection *selection
	object    *object.Object
	values    map[string]string
}

// Has implements fields.Fields.
func (f *fieldsOf) Has(string) bool { return true }

// Get implements fields.Fields.
func (f *fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.object.Key.Name
	case "metadata.namespace":
		return f.object.Key.Namespace
	}
	if f.values == nil {
		f.values = map[string]string{}
		obj, err := TreeOf(f.selection.definition, f.selection.version, f.object)
		if err == nil && f.selection.version.Fields != nil {
			f.values = f.selection.version.Fields(obj)
		}
	}
	return f.values[field]
}
