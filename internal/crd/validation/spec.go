package validation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxSelectable is the maximum number of selectable fields of a version.
const maxSelectable = 8

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

func (v *validator) spec(s *apiextensions.CustomResourceDefinitionSpec, at *field.Path) {
	if s.Group == "" {
		v.add(field.Required(at.Child("group"), ""))
	} else if wrong := utilvalidation.IsDNS1123Subdomain(s.Group); len(wrong) > 0 {
		v.add(field.Invalid(at.Child("group"), s.Group, strings.Join(wrong, ",")))
	} else if !strings.Contains(s.Group, ".") {
		v.add(field.Invalid(at.Child("group"), s.Group, "should be a domain with at least one dot"))
	}
	v.oneOf(at.Child("scope"), string(s.Scope), string(apiextensions.ClusterScoped), string(apiextensions.NamespaceScoped))
	v.schemasExist(s, at)
	if v.content.defaults && preserves(s) {
		v.add(field.Invalid(at.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
	}
	for i := range s.Versions {
		version, at := &s.Versions[i], at.Child("versions").Index(i)
		v.label(at.Child("name"), version.Name)
		v.version(version, hasStatus(subresourcesOf(s, version.Name)), at)
	}
	v.exclusive(s, at)
	v.versions(s, at)

	for _, name := range []struct{ field, value string }{
		{"plural", s.Names.Plural}, {"singular", s.Names.Singular}, {"kind", s.Names.Kind}, {"listKind", s.Names.ListKind},
	} {
		if name.value == "" {
			v.add(field.Required(at.Child("names", name.field), ""))
		}
	}
	v.names(&s.Names, at.Child("names"))
	anyStatus := hasStatus(s.Subresources) || slices.ContainsFunc(s.Versions, func(version apiextensions.CustomResourceDefinitionVersion) bool {
		return hasStatus(version.Subresources)
	})
	v.add(v.schema(s.Validation, anyStatus, s.Version, at.Child("validation"))...)
	v.subresources(s.Subresources, at.Child("subresources"))
	for i := range s.AdditionalPrinterColumns {
		v.column(&s.AdditionalPrinterColumns[i], at.Child("additionalPrinterColumns").Index(i))
	}
	if len(s.SelectableFields) > 0 {
		if s.Validation == nil {
			v.add(field.Invalid(at.Child("selectableFields"), "", "may only be set when validations.schema is included"))
		} else {
			v.selectable(s.SelectableFields, s.Validation.OpenAPIV3Schema, "", at)
		}
	}
	if s.Conversion != nil && s.Conversion.Strategy != apiextensions.NoneConverter && preserves(s) {
		v.add(field.Invalid(at.Child("conversion", "strategy"), s.Conversion.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	v.conversion(s.Conversion, at.Child("conversion"))
}

// oneOf checks a required value.
func (v *validator) oneOf(at *field.Path, value string, accepted ...string) {
	switch {
	case value == "":
		v.add(field.Required(at, ""))
	case !slices.Contains(accepted, value):
		v.add(field.NotSupported(at, value, accepted))
	}
}

// label checks a name as one of DNS.
func (v *validator) label(at *field.Path, name string) {
	if wrong := utilvalidation.IsDNS1035Label(name); len(wrong) > 0 {
		v.add(field.Invalid(at, name, strings.Join(wrong, ",")))
	}
}

// schemasExist checks that each version has a schema, or there is one for all.
func (v *validator) schemasExist(s *apiextensions.CustomResourceDefinitionSpec, at *field.Path) {
	if s.Validation != nil && s.Validation.OpenAPIV3Schema != nil {
		return
	}
	for i := range s.Versions {
		if version := &s.Versions[i]; version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			at := at.Child("versions").Index(i).Child("schema", "openAPIV3Schema")
			switch {
			case !v.leniency.noSchemas:
				v.add(field.Required(at, ""))
			case version.Served && prunes(s):
				v.add(field.Required(at, "because otherwise all fields are pruned"))
			}
		}
	}
}

// exclusive checks that what may be specified for all versions or for each is not specified twice.
// The internal form of a v1 definition whose versions are equal has it once.
func (v *validator) exclusive(s *apiextensions.CustomResourceDefinitionSpec, at *field.Path) {
	type version = apiextensions.CustomResourceDefinitionVersion
	parts := []struct {
		all     string
		each    string
		present bool // for all versions
		has     func(*version) bool
		equal   func(a, b *version) bool
	}{
		{"validation", "schemas", s.Validation != nil, func(v *version) bool { return v.Schema != nil },
			func(a, b *version) bool { return equality.Semantic.DeepEqual(a.Schema, b.Schema) }},
		{"subresources", "subresources", s.Subresources != nil, func(v *version) bool { return v.Subresources != nil },
			func(a, b *version) bool { return equality.Semantic.DeepEqual(a.Subresources, b.Subresources) }},
		{"additionalPrinterColumns", "additionalPrinterColumns", len(s.AdditionalPrinterColumns) > 0,
			func(v *version) bool { return len(v.AdditionalPrinterColumns) > 0 },
			func(a, b *version) bool {
				return equality.Semantic.DeepEqual(a.AdditionalPrinterColumns, b.AdditionalPrinterColumns)
			}},
	}
	for _, p := range parts {
		if p.present && slices.ContainsFunc(s.Versions, func(v version) bool { return p.has(&v) }) {
			v.add(field.Forbidden(at.Child(p.all), "top-level and per-version "+p.each+" are mutually exclusive"))
		}
	}
	for _, p := range parts {
		identical := len(s.Versions) > 0
		for i := range s.Versions {
			identical = identical && p.has(&s.Versions[i]) && (i == 0 || p.equal(&s.Versions[i], &s.Versions[0]))
		}
		if identical {
			v.add(field.Invalid(at.Child("versions"), s.Versions, fmt.Sprintf("per-version %s may not all be set to identical values (top-level %s should be used instead)", p.each, p.all)))
		}
	}
}

// versions checks the names of the versions, and that one of them is stored.
func (v *validator) versions(s *apiextensions.CustomResourceDefinitionSpec, at *field.Path) {
	seen, unique, stored := map[string]bool{}, true, 0
	for i := range s.Versions {
		version := &s.Versions[i]
		unique = unique && !seen[version.Name]
		seen[version.Name] = true
		if version.Storage {
			stored++
		}
	}
	if !unique {
		v.add(field.Invalid(at.Child("versions"), s.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		v.add(field.Invalid(at.Child("versions"), s.Versions, "must have exactly one version marked as storage version"))
	}
	if s.Version == "" {
		return
	}
	v.label(at.Child("version"), s.Version)
	if len(s.Versions) > 0 && s.Versions[0].Name != s.Version {
		v.add(field.Invalid(at.Child("version"), s.Version, "must match the first version in spec.versions"))
	}
}

func (v *validator) version(version *apiextensions.CustomResourceDefinitionVersion, hasStatus bool, at *field.Path) {
	v.deprecation(version, at.Child("deprecationWarning"))
	v.add(v.schema(version.Schema, hasStatus, version.Name, at.Child("schema"))...)
	v.subresources(version.Subresources, at.Child("subresources"))
	for i := range version.AdditionalPrinterColumns {
		v.column(&version.AdditionalPrinterColumns[i], at.Child("additionalPrinterColumns").Index(i))
	}
	if len(version.SelectableFields) == 0 {
		return
	}
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		v.add(field.Invalid(at.Child("selectableFields"), "", "may only be set when `version.schema.openAPIV3Schema` is not included")) // as in Kubernetes
		return
	}
	v.selectable(version.SelectableFields, version.Schema.OpenAPIV3Schema, version.Name, at)
}

func (v *validator) deprecation(version *apiextensions.CustomResourceDefinitionVersion, at *field.Path) {
	if version.DeprecationWarning == nil {
		return
	}
	invalid := func(text string) { v.add(field.Invalid(at, version.DeprecationWarning, text)) }
	if !version.Deprecated {
		invalid("can only be set for deprecated versions")
		return
	}
	text := *version.DeprecationWarning
	if len(text) > 256 {
		invalid("must be <= 256 characters long")
	}
	if text == "" {
		invalid("must not be an empty string")
	}
	const printable = "must only contain printable UTF-8 characters"
	for i, r := range text {
		if !unicode.IsPrint(r) {
			invalid(fmt.Sprintf("%s; non-printable character found at index %d", printable, i))
			break
		}
	}
	if !utf8.ValidString(text) {
		invalid(printable)
	}
}

// subresourcesOf returns the subresources of a version.
func subresourcesOf(s *apiextensions.CustomResourceDefinitionSpec, name string) *apiextensions.CustomResourceSubresources {
	each := false
	for i := range s.Versions {
		each = each || s.Versions[i].Subresources != nil
	}
	if !each {
		return s.Subresources
	}
	for i := range s.Versions {
		if s.Versions[i].Name == name {
			return s.Versions[i].Subresources
		}
	}
	return nil
}

func hasStatus(s *apiextensions.CustomResourceSubresources) bool { return s != nil && s.Status != nil }

func (v *validator) names(n *apiextensions.CustomResourceDefinitionNames, at *field.Path) {
	for _, name := range []struct{ field, value string }{{"plural", n.Plural}, {"singular", n.Singular}} {
		if name.value != "" {
			v.label(at.Child(name.field), name.value)
		}
	}
	for _, kind := range []struct{ field, value string }{{"kind", n.Kind}, {"listKind", n.ListKind}} {
		if wrong := utilvalidation.IsDNS1035Label(strings.ToLower(kind.value)); kind.value != "" && len(wrong) > 0 {
			v.add(field.Invalid(at.Child(kind.field), kind.value, "may have mixed case, but should otherwise match: "+strings.Join(wrong, ",")))
		}
	}
	for i, name := range n.ShortNames {
		v.label(at.Child("shortNames").Index(i), name)
	}
	if n.Kind != "" && n.Kind == n.ListKind {
		v.add(field.Invalid(at.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	for i, category := range n.Categories {
		v.label(at.Child("categories").Index(i), category)
	}
}

func (v *validator) column(c *apiextensions.CustomResourceColumnDefinition, at *field.Path) {
	if c.Name == "" {
		v.add(field.Required(at.Child("name"), ""))
	}
	types := "must be one of " + strings.Join(columnTypes, ",")
	if c.Type == "" {
		v.add(field.Required(at.Child("type"), types))
	} else if !slices.Contains(columnTypes, c.Type) {
		v.add(field.Invalid(at.Child("type"), c.Type, types))
	}
	if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
		v.add(field.Invalid(at.Child("format"), c.Format, "must be one of "+strings.Join(columnFormats, ",")))
	}
	v.path(at.Child("JSONPath"), c.JSONPath)
}

// path checks a required path, and reports whether it is one.
func (v *validator) path(at *field.Path, path string) bool {
	switch {
	case path == "":
		v.add(field.Required(at, ""))
	case path[0] != '.':
		v.add(field.Invalid(at, path, "must be a simple json path starting with ."))
	default:
		return true
	}
	return false
}

func (v *validator) subresources(s *apiextensions.CustomResourceSubresources, at *field.Path) {
	if s == nil || s.Scale == nil {
		return
	}
	at = at.Child("scale")
	spec, status := s.Scale.SpecReplicasPath, s.Scale.StatusReplicasPath
	if v.path(at.Child("specReplicasPath"), spec) && !strings.HasPrefix(spec, ".spec.") {
		v.add(field.Invalid(at.Child("specReplicasPath"), spec, "should be a json path under .spec"))
	}
	if v.path(at.Child("statusReplicasPath"), status) && !strings.HasPrefix(status, ".status.") {
		v.add(field.Invalid(at.Child("statusReplicasPath"), status, "should be a json path under .status"))
	}
	selector := s.Scale.LabelSelectorPath
	if selector == nil || *selector == "" {
		return
	}
	if v.path(at.Child("labelSelectorPath"), *selector) && !strings.HasPrefix(*selector, ".spec.") && !strings.HasPrefix(*selector, ".status.") {
		v.add(field.Invalid(at.Child("labelSelectorPath"), selector, "should be a json path under either .spec or .status"))
	}
}

// selectable checks the selectable fields of a version, "" for those of all versions. at is the
// version, or the spec.
func (v *validator) selectable(fields []apiextensions.SelectableField, s *apiextensions.JSONSchemaProps, version string, at *field.Path) {
	structural, err := structuralschema.NewStructural(s)
	if err != nil {
		v.add(field.Invalid(at.Child("schema", "openAPIV3Schema"), "", err.Error()))
	}
	at = at.Child("selectableFields")
	unique := map[string]bool{}
	for i, f := range fields {
		at := at.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			v.add(field.Required(at, ""))
			continue
		}
		path, found, err := find(f.JSONPath, structural, cel.WithFieldPathAllowArrayNotation(false))
		if err != nil {
			v.add(field.Invalid(at, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if path.Root().String() == "metadata" {
			v.add(field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		}
		if found == nil || !slices.Contains([]string{"string", "boolean", "integer"}, found.Type) {
			v.add(field.Invalid(at, f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if unique[path.String()] {
			v.add(field.Duplicate(at, f.JSONPath))
		}
		unique[path.String()] = true
	}
	if len(unique) > maxSelectable && !v.leniency.selectable[version] {
		v.add(field.TooMany(at, len(unique), maxSelectable))
	}
}

// find returns the schema at a path. The library panics on paths through values without a schema.
func find(path string, s *structuralschema.Structural, options ...cel.ValidFieldPathOption) (at *field.Path, found *structuralschema.Structural, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it leads through values that have no schema")
		}
	}()
	return cel.ValidFieldPath(path, s, options...)
}
