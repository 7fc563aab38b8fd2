package importcrd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind has the Go types for one version of a definition.
type kind struct {
	definition *apiextensionsv1.CustomResourceDefinition
	version    *apiextensionsv1.CustomResourceDefinitionVersion
	taken      scope              // the names of types in the package
	root       *goType            // the type of the kind
	types      []*goType          // the others
	shapes     map[string]*goType // the others by their schemas
	waiting    []waiting          // types whose fields are not known yet
	imports    map[string]bool
}

// A goType is a named type.
type goType struct {
	name    string
	doc     string
	markers []string
	expr    string // the underlying type; "" is a struct
	fields  []field
	values  []constant // of an enumeration
	unknown bool       // a struct that keeps fields that it does not know
}

type field struct {
	doc     string
	markers []string
	name    string
	expr    string
	tag     string // in JSON, with options
}

type constant struct{ name, value string }

// waiting is a struct whose fields are to be added.
type waiting struct {
	of     *goType
	schema *apiextensionsv1.JSONSchemaProps
}

// A use is what stands in the place where a schema is used.
type use struct {
	expr    string
	markers []string // those that can stand on a field or a type
	form    form
}

// A form tells how absence can be told from the zero value.
type form int

const (
	scalar form = iota
	structure
	collection // a list or map, or raw JSON: nil is absent
)

// newKind returns the types for a version of a definition. The names of all kinds of the package
// are taken already.
func newKind(d *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion, taken scope) (*kind, error) {
	k := &kind{definition: d, version: v, taken: taken, shapes: map[string]*goType{}, imports: map[string]bool{}}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		schema = v.Schema.OpenAPIV3Schema
	}
	name := d.Spec.Names.Kind
	k.root = &goType{name: name, doc: schema.Description, markers: append(k.rootMarkers(), objectMarkers(schema, nil)...)}
	if preserves(schema) {
		k.root.markers = append(k.root.markers, preserve)
		k.root.unknown = true
	}
	metadata := "metadata"
	if !slices.Contains(schema.Required, "metadata") {
		metadata = "metadata,omitempty"
	}
	k.root.fields = []field{
		{expr: "metav1.TypeMeta", tag: ",inline"},
		{expr: "metav1.ObjectMeta", tag: metadata},
	}
	k.imports[metaPackage] = true
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(name string) bool {
		return name == "apiVersion" || name == "kind" || name == "metadata"
	})
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	inRoot := scope{"DeepCopyObject": true}
	for _, embedded := range []reflect.Type{reflect.TypeFor[*metav1.TypeMeta](), reflect.TypeFor[*metav1.ObjectMeta]()} {
		inRoot[embedded.Elem().Name()] = true
		for i := range embedded.NumMethod() {
			inRoot[embedded.Method(i).Name] = true
		}
		for i := range embedded.Elem().NumField() {
			inRoot[embedded.Elem().Field(i).Name] = true
		}
	}
	if err := k.addFields(k.root, schema, names, inRoot); err != nil {
		return nil, err
	}
	for len(k.waiting) > 0 {
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		names := slices.Sorted(maps.Keys(next.schema.Properties))
		if err := k.addFields(next.of, next.schema, names, scope{}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(k.types, func(a, b *goType) int { return strings.Compare(a.name, b.name) })
	return k, nil
}

// rank orders the fields of a kind: spec first, status last.
func rank(name string) int {
	switch name {
	case "spec":
		return -1
	case "status":
		return 1
	}
	return 0
}

// addFields adds fields to a struct. taken has the names that they cannot have.
func (k *kind) addFields(t *goType, s *apiextensionsv1.JSONSchemaProps, names []string, taken scope) error {
	for _, method := range []string{"DeepCopy", "DeepCopyInto", "MarshalJSON", "UnmarshalJSON"} {
		taken[method] = true
	}
	for _, name := range names {
		if !validTag(name) {
			return fmt.Errorf("the property %q of %s: no Go field can have this name in JSON", name, t.name)
		}
		goName := goName(name)
		if goName == "" {
			goName = "Field"
		}
		schema := s.Properties[name]
		required := slices.Contains(s.Required, name)
		u := k.use(&schema, t.name+goName, "")
		f := field{
			doc: schema.Description, name: taken.take(goName), expr: u.expr, tag: name,
			markers: slices.Concat(titleMarkers(&schema), u.markers, fieldMarkers(&schema, required)),
		}
		if name == "-" {
			f.tag = "-,"
		}
		switch {
		case required && u.form != collection && schema.Nullable:
			f.expr = pointerTo(u.expr)
		case required:
		case u.form == collection && isGoCollection(u.expr):
			f.tag = name + ",omitzero"
		default:
			f.tag = name + ",omitempty"
			if u.form == collection || u.form == structure || schema.Nullable || zeroIsValid(&schema) {
				f.expr = pointerTo(u.expr)
			}
		}
		t.fields = append(t.fields, f)
	}
	if t.unknown {
		k.imports[jsonPackage] = true
		t.fields = append(t.fields, field{
			doc: unknownDoc, name: taken.take("Unknown"), expr: "map[string]apiextensionsv1.JSON", tag: "-",
		})
	}
	return nil
}

const unknownDoc = "Unknown has the other fields of the object: the definition keeps them, whatever they are."

func pointerTo(expr string) string { return "*" + expr }

// isGoCollection reports whether a type expression is a slice or a map, rather than a struct with
// JSON.
func isGoCollection(expr string) bool {
	return strings.HasPrefix(expr, "[") || strings.HasPrefix(expr, "map[")
}

// validTag reports whether encoding/json takes a name from a tag.
func validTag(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	})
}

// zeroIsValid reports whether the zero value of a scalar is a valid value of a schema, which must
// differ from an absent one.
func zeroIsValid(s *apiextensionsv1.JSONSchemaProps) bool {
	zero := map[string]string{"string": `""`, "integer": "0", "number": "0", "boolean": "false"}[s.Type]
	switch {
	case len(s.Enum) > 0 && zero != "":
		return slices.ContainsFunc(s.Enum, func(v apiextensionsv1.JSON) bool { return string(bytes.TrimSpace(v.Raw)) == zero })
	case s.Type == "string":
		return s.MinLength == nil || *s.MinLength == 0
	case s.Type == "integer", s.Type == "number":
		return !(s.Minimum != nil && (*s.Minimum > 0 || *s.Minimum == 0 && s.ExclusiveMinimum) ||
			s.Maximum != nil && (*s.Maximum < 0 || *s.Maximum == 0 && s.ExclusiveMaximum))
	}
	return true
}

const (
	metaPackage     = "k8s.io/apimachinery/pkg/apis/meta/v1"
	quantityPackage = "k8s.io/apimachinery/pkg/api/resource"
	intstrPackage   = "k8s.io/apimachinery/pkg/util/intstr"
	runtimePackage  = "k8s.io/apimachinery/pkg/runtime"
	jsonPackage     = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// quantityPattern is the pattern that controller-gen gives to quantities.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// preserve is the marker for keeping unknown fields.
const preserve = "kubebuilder:validation:XPreserveUnknownFields"

// preserves reports whether a schema keeps unknown fields.
func preserves(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// use returns the Go type for a schema. name is for the type that it may need, and doc for the
// comment of that type. Where a field is used, the comment is the field's.
func (k *kind) use(s *apiextensionsv1.JSONSchemaProps, name, doc string) use {
	switch {
	case s.XIntOrString:
		return k.intOrString(s)
	case s.Type == "object":
		return k.object(s, name, doc)
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return k.list(s, name)
	case s.Type == "string":
		return k.text(s, name, doc)
	case s.Type == "boolean":
		return use{expr: "bool", markers: validationMarkers(s)}
	case s.Type == "integer", s.Type == "number":
		return number(s)
	}
	k.imports[jsonPackage] = true
	u := use{expr: "apiextensionsv1.JSON", form: collection, markers: []string{"kubebuilder:validation:Schemaless"}}
	if preserves(s) {
		if s.Type == "" {
			u.markers = nil
		} else {
			u.markers = append(u.markers, preserve)
		}
	}
	if s.Type != "" {
		u.markers = append(u.markers, "kubebuilder:validation:Type="+s.Type)
	}
	u.markers = append(u.markers, validationMarkers(s)...)
	return u
}

func (k *kind) intOrString(s *apiextensionsv1.JSONSchemaProps) use {
	rest := *s
	asGenerated := len(s.AnyOf) == 2 && s.AnyOf[0].Type == "integer" && s.AnyOf[1].Type == "string" && s.Format == ""
	if asGenerated {
		rest.AnyOf = nil
	}
	if asGenerated && s.Pattern == quantityPattern {
		k.imports[quantityPackage] = true
		rest.Pattern = ""
		return use{expr: "resource.Quantity", markers: intOrStringMarkers(&rest), form: structure}
	}
	k.imports[intstrPackage] = true
	u := use{expr: "intstr.IntOrString", form: structure}
	if asGenerated {
		u.markers = intOrStringMarkers(&rest)
	} else {
		u.markers = append([]string{"kubebuilder:validation:Schemaless", "kubebuilder:validation:XIntOrString"}, validationMarkers(s)...)
	}
	return u
}

// intOrStringMarkers returns the markers for a field of a type of another package. With the first
// one, the others know that the type has text.
func intOrStringMarkers(s *apiextensionsv1.JSONSchemaProps) []string {
	if markers := validationMarkers(s); len(markers) > 0 {
		return append([]string{"kubebuilder:validation:XIntOrString"}, markers...)
	}
	return nil
}

func number(s *apiextensionsv1.JSONSchemaProps) use {
	rest := *s
	u := use{expr: "float64"}
	if s.Type == "integer" {
		u.expr = "int"
		if s.Format == "int32" || s.Format == "int64" {
			u.expr = s.Format
			rest.Format = ""
		}
	}
	u.markers = validationMarkers(&rest)
	return u
}

func (k *kind) text(s *apiextensionsv1.JSONSchemaProps, name, doc string) use {
	switch markers := validationMarkers(s); {
	case s.Format == "date-time" && len(markers) == 1:
		k.imports[metaPackage] = true
		return use{expr: "metav1.Time", form: structure}
	case s.Format == "byte" && len(markers) == 1:
		return use{expr: "[]byte", form: collection}
	case len(s.Enum) > 0:
		if t := k.enumeration(s, name, doc); t != nil {
			return use{expr: t.name}
		}
	}
	return use{expr: "string", markers: validationMarkers(s)}
}

// enumeration returns a type with a constant for each value, nil if the values make no names.
func (k *kind) enumeration(s *apiextensionsv1.JSONSchemaProps, name, doc string) *goType {
	if _, ok := enumeration(s.Enum); !ok {
		return nil
	}
	var values []constant
	for _, raw := range s.Enum {
		var value string
		if json.Unmarshal(raw.Raw, &value) != nil {
			return nil
		}
		goName := goName(value)
		if value == "" {
			goName = "Empty"
		}
		if goName == "" || slices.ContainsFunc(values, func(c constant) bool { return c.name == goName }) {
			return nil
		}
		values = append(values, constant{goName, value})
	}
	t, isNew := k.named(s, name, doc)
	if isNew {
		t.expr, t.markers = "string", validationMarkers(s)
		for _, c := range values {
			t.values = append(t.values, constant{k.taken.take(t.name + c.name), c.value})
		}
	}
	return t
}

func (k *kind) list(s *apiextensionsv1.JSONSchemaProps, name string) use {
	u := use{form: collection, markers: append(topologyMarkers(s, ""), validationMarkers(s)...)}
	if preserves(s) {
		u.markers = append(u.markers, preserve)
	}
	of, markers, isWhole := k.element(s.Items.Schema, itemName(name), true)
	u.expr = "[]" + of
	for _, marker := range markers {
		u.markers = append(u.markers, "kubebuilder:validation:items:"+strings.TrimPrefix(marker, "kubebuilder:validation:"))
	}
	if !isWhole {
		u.markers = append(u.markers, schemaMarker(&apiextensionsv1.JSONSchemaProps{Items: s.Items})...)
	}
	return u
}

// element returns the type for the items of a list or the values of a map. Those of scalars in
// lists can have markers of their own. Others with markers or a description get a named type, but
// not types that have methods, which a new name would lose, and bytes: then something of the schema
// may be missing. An element that can be null is a pointer.
func (k *kind) element(s *apiextensionsv1.JSONSchemaProps, name string, inList bool) (expr string, markers []string, isWhole bool) {
	u := k.use(s, name, s.Description)
	rest := schemaMarker(&apiextensionsv1.JSONSchemaProps{Default: s.Default, Example: s.Example})
	onType := slices.Concat(titleMarkers(s), u.markers, rest)
	hasType := k.taken[u.expr] // a struct or an enumeration, which has the description
	switch {
	case s.Nullable && u.form != collection:
		return pointerTo(u.expr), nil, false
	case s.Nullable:
		return u.expr, nil, false
	case len(onType) == 0 && (hasType || s.Description == ""):
		return u.expr, nil, true
	case s.Description == "" && inList && (u.form != collection || isForeign(u.expr)) && !slices.ContainsFunc(onType, isNoValidation):
		return u.expr, onType, true
	case hasType || isForeign(u.expr) || u.expr == "[]byte":
		return u.expr, nil, false
	}
	t, isNew := k.named(s, name, s.Description)
	if isNew {
		t.expr, t.doc, t.markers = u.expr, s.Description, onType
	}
	return t.name, nil, true
}

// isForeign reports whether a type is one of another package.
func isForeign(expr string) bool { return strings.Contains(expr, ".") && !isGoCollection(expr) }

func isNoValidation(marker string) bool {
	return !strings.HasPrefix(marker, "kubebuilder:validation:") || marker == "kubebuilder:validation:Schemaless"
}

func (k *kind) object(s *apiextensionsv1.JSONSchemaProps, name, doc string) use {
	switch {
	case len(s.Properties) > 0 && !s.XEmbeddedResource:
		t, isNew := k.named(s, name, doc)
		if isNew {
			t.markers = objectMarkers(s, nil)
			if preserves(s) {
				t.markers = append(t.markers, preserve)
				t.unknown = true
			}
			k.waiting = append(k.waiting, waiting{t, s})
		}
		return use{expr: t.name, form: structure}
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		u := use{form: collection, markers: append(topologyMarkers(s, "mapType"), validationMarkers(s)...)}
		of, _, isWhole := k.element(s.AdditionalProperties.Schema, name+"Value", false)
		u.expr = "map[string]" + of
		if !isWhole {
			u.markers = append(u.markers, schemaMarker(&apiextensionsv1.JSONSchemaProps{AdditionalProperties: s.AdditionalProperties})...)
		}
		if preserves(s) {
			u.markers = append(u.markers, preserve)
		}
		return u
	case preserves(s) || s.XEmbeddedResource || s.AdditionalProperties != nil:
		k.imports[runtimePackage] = true
		u := use{expr: "runtime.RawExtension", form: collection}
		u.markers = objectMarkers(s, []string{"kubebuilder:validation:Type=object"})
		if s.XEmbeddedResource {
			u.markers = append(u.markers, "kubebuilder:validation:XEmbeddedResource")
		}
		return u
	}
	t, isNew := k.named(s, name, doc)
	if isNew {
		t.markers = objectMarkers(s, nil)
	}
	return use{expr: t.name, form: structure}
}

// objectMarkers returns the markers for the constraints of an object as a whole, after those of
// first if there are any.
func objectMarkers(s *apiextensionsv1.JSONSchemaProps, first []string) []string {
	markers := append(topologyMarkers(s, "structType"), validationMarkers(s)...)
	if len(markers) == 0 {
		return nil
	}
	return append(first, markers...)
}

// named returns the type for a schema, and whether it is a new one. Equal schemas of a kind share a
// type, if they have the same doc: their descriptions, defaults and so on stand on the fields.
func (k *kind) named(s *apiextensionsv1.JSONSchemaProps, name, doc string) (t *goType, isNew bool) {
	shape := *s
	shape.Description, shape.Title, shape.ExternalDocs = doc, "", nil
	shape.Default, shape.Example, shape.Nullable = nil, nil, false
	key, err := json.Marshal(&shape)
	if t := k.shapes[string(key)]; t != nil && err == nil {
		return t, false
	}
	t = &goType{name: k.taken.take(name), doc: doc}
	k.shapes[string(key)] = t
	k.types = append(k.types, t)
	return t, true
}
