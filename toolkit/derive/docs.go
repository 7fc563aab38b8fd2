package derive

import (
	"bytes"
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// Docs generates the documentation of an API, a page for each version of a group: GROUP_VERSION.md
// or .html.
type Docs struct {
	reader
	// Format is markdown or html.
	Format string `marker:",optional"`
	// AllowDangerousTypes allows floats, as in crd.
	AllowDangerousTypes *bool `marker:",optional"`
	// GenerateEmbeddedObjectMeta gives embedded metadata its fields, as in crd.
	GenerateEmbeddedObjectMeta *bool `marker:",optional"`
}

var (
	_ genall.Generator         = Docs{}
	_ genall.NeedsTypeChecking = Docs{}
)

// Help implements genall.HasHelp.
func (Docs) Help() *markers.DefinitionHelp {
	return help("generates the documentation of an API: GROUP_VERSION.md")
}

//go:embed docs.md.tmpl
var markdown string

//go:embed docs.html.tmpl
var html string

// Generate implements genall.Generator.
func (g Docs) Generate(c *genall.GenerationContext) error {
	extension, render, err := g.form()
	if err != nil {
		return err
	}
	groups := byVersion(kindsOf(c, options{AllowDangerousTypes: g.AllowDangerousTypes, GenerateEmbeddedObjectMeta: g.GenerateEmbeddedObjectMeta}))
	for _, apiVersion := range slices.Sorted(maps.Keys(groups)) {
		text := &bytes.Buffer{}
		if err := render(text, pageOf(groups[apiVersion])); err != nil {
			return fmt.Errorf("document %s: %w", apiVersion, err)
		}
		if err := write(c, strings.ReplaceAll(apiVersion, "/", "_")+extension, text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// form returns the extension of files and what writes a page in the format.
func (g Docs) form() (extension string, render func(io.Writer, any) error, err error) {
	switch g.Format {
	case "", "markdown":
		t, err := template.New("").Funcs(template.FuncMap{"cell": cell, "plain": plain}).Parse(markdown)
		if err != nil {
			return "", nil, err
		}
		return ".md", t.Execute, nil
	case "html":
		t, err := htmltemplate.New("").Parse(html)
		if err != nil {
			return "", nil, err
		}
		return ".html", t.Execute, nil
	}
	return "", nil, fmt.Errorf("docs: format %q: must be markdown or html", g.Format)
}

// pageOf returns the page of the kinds of a version.
func pageOf(kinds []kind) page {
	p := page{APIVersion: kinds[0].apiVersion()}
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, docOf(k))
	}
	return p
}

// A page documents a version of a group.
type page struct {
	APIVersion string
	Kinds      []kindDoc
}

type kindDoc struct {
	Name, Anchor string
	Text         string
	Facts        []string
	Objects      []objectDoc

	anchors map[string]bool // that are taken
}

// An objectDoc documents the fields of an object at a path in a kind.
type objectDoc struct {
	Path   string // "" for the kind itself
	Anchor string
	Rules  []string
	Fields []fieldDoc
}

type fieldDoc struct {
	Name     string
	Type     string
	Anchor   string // of the object in the field, or ""
	Required bool
	Text     string
	Notes    []string // constraints
}

func docOf(k kind) kindDoc {
	d := kindDoc{Name: k.name, Anchor: strings.ToLower(k.name), Text: strings.TrimSpace(k.schema.Description), anchors: map[string]bool{}}
	scope := "cluster-scoped"
	if k.namespaced {
		scope = "namespaced"
	}
	d.Facts = append(d.Facts, fmt.Sprintf("resource %s, %s", k.plural, scope))
	if len(k.shortNames) > 0 {
		d.Facts = append(d.Facts, "short names: "+strings.Join(k.shortNames, ", "))
	}
	if k.deprecated {
		d.Facts = append(d.Facts, "deprecated")
	}
	d.object("", d.anchor(""), k.schema)
	return d
}

// object adds the documentation of an object and of those within it.
func (d *kindDoc) object(path, anchor string, s *schema) {
	at := len(d.Objects)
	d.Objects = append(d.Objects, objectDoc{Path: path, Anchor: anchor, Rules: rules(s)})
	for _, name := range fields(s) {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue // as in every kind
		}
		field := s.Properties[name]
		f := fieldDoc{
			Name: name, Type: typeName(&field), Required: slices.Contains(s.Required, name),
			Text: strings.TrimSpace(field.Description), Notes: constraints(&field),
		}
		below, of := strings.TrimPrefix(path+"."+name, "."), &field
		for {
			if item := itemOf(of); item != nil {
				below, of = below+"[]", item
			} else if value := valueOf(of); value != nil {
				below, of = below+".*", value
			} else {
				break
			}
			f.Notes = append(f.Notes, prefixed("each: ", constraints(of))...)
		}
		if len(of.Properties) > 0 {
			f.Anchor = d.anchor(below)
			d.object(below, f.Anchor, of)
		} else {
			f.Notes = append(f.Notes, rules(of)...)
		}
		d.Objects[at].Fields = append(d.Objects[at].Fields, f)
	}
}

// anchor returns a new name for the place of an object on the page.
func (d *kindDoc) anchor(path string) string {
	name := d.Anchor
	if path != "" {
		name += "-" + strings.ToLower(strings.Trim(strings.NewReplacer(".", "-", "[]", "", "*", "values").Replace(path), "-"))
	}
	unique := name
	for i := 2; d.anchors[unique]; i++ {
		unique = fmt.Sprint(name, "-", i)
	}
	d.anchors[unique] = true
	return unique
}

func itemOf(s *schema) *schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func valueOf(s *schema) *schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

func prefixed(prefix string, all []string) []string {
	out := make([]string, len(all))
	for i, text := range all {
		out[i] = prefix + text
	}
	return out
}

// typeName names the type of a value for readers.
func typeName(s *schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case itemOf(s) != nil:
		return "list of " + typeName(itemOf(s))
	case valueOf(s) != nil:
		return "map of " + typeName(valueOf(s))
	case s.Format != "" && s.Type == "string":
		return "string (" + s.Format + ")"
	case s.Format != "" && s.Type == "integer":
		return s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// constraints tells what values a field may have, and its default.
func constraints(s *schema) []string {
	var out []string
	add := func(isSet bool, format string, args ...any) {
		if isSet {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if s.Default != nil {
		add(true, "default: %s", s.Default.Raw)
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, string(v.Raw))
		}
		add(true, "one of %s", strings.Join(values, ", "))
	}
	if s.Minimum != nil {
		add(!s.ExclusiveMinimum, "minimum: %v", *s.Minimum)
		add(s.ExclusiveMinimum, "greater than %v", *s.Minimum)
	}
	if s.Maximum != nil {
		add(!s.ExclusiveMaximum, "maximum: %v", *s.Maximum)
		add(s.ExclusiveMaximum, "less than %v", *s.Maximum)
	}
	for _, limit := range []struct {
		name  string
		value *int64
	}{
		{"minLength", s.MinLength}, {"maxLength", s.MaxLength}, {"minItems", s.MinItems}, {"maxItems", s.MaxItems},
		{"minProperties", s.MinProperties}, {"maxProperties", s.MaxProperties},
	} {
		if limit.value != nil {
			add(true, "%s: %d", limit.name, *limit.value)
		}
	}
	if s.MultipleOf != nil {
		add(true, "a multiple of %v", *s.MultipleOf)
	}
	add(s.Pattern != "", "pattern: %s", s.Pattern)
	add(s.Nullable, "may be null")
	if s.XListType != nil {
		add(*s.XListType == "set", "no two items are equal")
		add(*s.XListType == "map", "no two items have the same %s", strings.Join(s.XListMapKeys, " and "))
	}
	if itemOf(s) != nil || valueOf(s) != nil {
		out = append(out, rules(s)...)
	}
	return out
}

// rules tells the rules in CEL of a value.
func rules(s *schema) []string {
	var out []string
	for _, r := range s.XValidations {
		text := "rule: " + r.Rule
		if r.Message != "" {
			text += " (" + r.Message + ")"
		}
		out = append(out, text)
	}
	return out
}

// plain returns a text for a cell of a table in Markdown that has no markup.
func plain(text string) string {
	return cell(strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`").Replace(text))
}

// cell returns a text for a cell of a table in Markdown. Code spans stay as they are.
func cell(text string) string {
	parts := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "```", "")), "`")
	for i := range parts {
		if i%2 == 0 || i == len(parts)-1 { // outside of a span, or after the last one
			parts[i] = strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(parts[i])
		}
	}
	text = strings.ReplaceAll(strings.Join(parts, "`"), "|", "\\|")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "\n"), "\n", "<br>")
}
