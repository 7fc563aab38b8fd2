package resource

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selection defines the objects that a list or watch returns: those of one namespace or of all,
// by label and field selectors.
type selection struct {
	definition *Definition
	version    *Version
	namespace  string
	name       string          // "" for any
	labels     labels.Selector // nil for everything
	fields     fields.Selector // nil for everything; without name and namespace
	valuesKey  object.FormKey  // under which objects keep the values of their fields
}

// newSelection returns the selection of a request, or an error if it selects by an unknown field.
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
	hash := fnv.New64a()
	for _, label := range s.version.Selectable {
		fmt.Fprintln(hash, label)
	}
	s.valuesKey = object.FormKey{
		Schema: s.version.Model.Fingerprint() ^ hash.Sum64(), Version: s.definition.APIVersion(s.version), Media: object.Fields,
	}
	return s, nil
}

func (s *selection) unsupported(field string) error {
	if !s.definition.Custom && len(s.version.Selectable) == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, field))
	}
	if s.version.Unselectable != "" {
		return apierrors.NewBadRequest(fmt.Sprintf(s.version.Unselectable, field))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", field))
}

func (s *selection) selectable(field string) bool {
	switch field {
	case "metadata.name":
		return true
	case "metadata.namespace":
		return !s.version.NotByNamespace && (s.definition.Namespaced || !s.definition.Custom)
	}
	return slices.Contains(s.version.Selectable, field)
}

// everything reports whether only the namespace restricts the selection.
func (s *selection) everything() bool { return s.labels == nil && s.fields == nil && s.name == "" }

// sieve returns a sieve that leaves out objects whose labels do not match, before they are decoded.
// A conversion webhook may change labels: nothing is left out where there is one.
func (s *selection) sieve() object.Sieve {
	if s.definition.Webhook != nil {
		return nil
	}
	return object.SieveOf(s.labels)
}

// mayMatch reports whether an object, which may be nil, has the selected name and namespace, which
// are the same in all versions.
func (s *selection) mayMatch(o *object.Object) bool {
	return o != nil && (s.namespace == "" || o.Key.Namespace == s.namespace) && (s.name == "" || o.Key.Name == s.name)
}

// matches reports whether an object, which may be nil, is selected. It must be decodable in the
// version of the request.
func (s *selection) matches(o *object.Object) bool {
	if !s.mayMatch(o) {
		return false
	}
	if s.labels != nil && !s.labels.Matches(&o.Meta.Labels) {
		return false
	}
	return s.fields == nil || s.fields.Matches(&fieldsOf{selection: s, object: o})
}

// fieldsOf gives a selector the fields of an object. The object is decoded for the first selector
// that reads more than its name, and the values are cached with the object: an event may be matched
// against as many selectors as there are nodes.
type fieldsOf struct {
	selection *selection
	object    *object.Object
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
	d, v := f.selection.definition, f.selection.version
	n := slices.Index(v.Selectable, field)
	if n < 0 || v.Fields == nil {
		return ""
	}
	form, err := f.object.Form(f.selection.valuesKey, func(o *object.Object) (object.Form, error) { return selectedFields(d, v, o) })
	if err != nil {
		return ""
	}
	return string(textAt(form.Bytes, n))
}

// selectedFields encodes the values of an object for the Selectable of a version, in their order,
// each after its length.
func selectedFields(d *Definition, v *Version, o *object.Object) (object.Form, error) {
	var obj Tree
	var err error
	if v.FieldPaths != nil && o.Schema == stamp(v) {
		obj, err = o.Part(v.FieldPaths) // a small part of most objects
	} else {
		obj, err = TreeOf(d, v, o)
	}
	if err != nil {
		return object.Form{}, err
	}
	var all []byte
	values := v.Fields(obj)
	for _, label := range v.Selectable {
		all = binary.AppendUvarint(all, uint64(len(values[label])))
		all = append(all, values[label]...)
	}
	return object.Form{Bytes: slices.Clip(all), Splice: -1}, nil
}

// textAt returns the n-th of texts that are each preceded by their length.
func textAt(all []byte, n int) []byte {
	for {
		length, size := binary.Uvarint(all)
		all = all[size:]
		if n == 0 {
			return all[:length]
		}
		all = all[length:]
		n--
	}
}
