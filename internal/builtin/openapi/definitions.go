// Package openapi holds the schemas of the built-in kinds: the definitions that Kubernetes publishes in its OpenAPI
// documents, made from the Go types of k8s.io/api and its neighbours by the nested module gen.
//
// The definitions lie in the program's file as text, one a line, and cost no memory until somebody asks for one; what is
// asked for is decoded anew and belongs to the caller. There are no goroutines and no locks; everything is immutable.
package openapi

import (
	_ "embed"
	"fmt"
	"iter"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

//go:generate go -C gen run .

//go:embed definitions.txt
var text string

// RefPrefix is what stands before a definition's name in a reference to it.
const RefPrefix = "#/components/schemas/"

// Definitions are schemas by name, as io.k8s.api.core.v1.Pod. They are written as OpenAPI v3 writes them.
type Definitions struct {
	text   string
	starts []uint32 // of the lines of text, which are sorted by name
}

// Builtin is the definitions of the built-in kinds.
var Builtin = sync.OnceValue(func() *Definitions { return parse(text) })

func parse(text string) *Definitions {
	d := &Definitions{text: text}
	d.starts = make([]uint32, 0, strings.Count(text, "\n"))
	for at := 0; at < len(text); {
		d.starts = append(d.starts, uint32(at))
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return d
}

// line splits the i-th line.
func (d *Definitions) line(i int) (name, schema string) {
	line, _, _ := strings.Cut(d.text[d.starts[i]:], "\n")
	name, schema, _ = strings.Cut(line, "\t")
	return name, schema
}

// Raw is the JSON of a definition.
func (d *Definitions) Raw(name string) (string, bool) {
	i := sort.Search(len(d.starts), func(i int) bool {
		found, _ := d.line(i)
		return found >= name
	})
	if i == len(d.starts) {
		return "", false
	}
	found, schema := d.line(i)
	return schema, found == name
}

// RawV2 is the JSON of a definition for OpenAPI v2, where that says something else and not just the same in other words.
func (d *Definitions) RawV2(name string) (string, bool) {
	return d.Raw(name + "@v2")
}

// All are the names and the JSON of all definitions, sorted by name.
func (d *Definitions) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range d.starts {
			name, schema := d.line(i)
			if !strings.HasSuffix(name, "@v2") && !yield(name, schema) {
				return
			}
		}
	}
}

// Get decodes a definition. The schema is the caller's own.
func (d *Definitions) Get(name string) (*spec.Schema, bool) {
	raw, ok := d.Raw(name)
	if !ok {
		return nil, false
	}
	s, err := decode(raw)
	return s, err == nil
}

// Lean is Get without descriptions, of which no machine has a use.
func (d *Definitions) Lean(name string) (*spec.Schema, bool) {
	raw, ok := d.Raw(name)
	if !ok {
		return nil, false
	}
	s, err := decode(withoutDescriptions(raw))
	return s, err == nil
}

// decode reads one definition; that all can be read is tested.
func decode(raw string) (*spec.Schema, error) {
	s := new(spec.Schema)
	if err := s.UnmarshalJSON([]byte(raw)); err != nil { // not json.Unmarshal, which would read it twice
		return nil, err
	}
	return s, nil
}

// Reachable are the names of the definition and of all that it refers to, directly or not, sorted by first mention.
func (d *Definitions) Reachable(names ...string) []string { return d.ReachableBut(nil, names...) }

// ReachableBut is Reachable without definitions that are known, nor what only those refer to.
func (d *Definitions) ReachableBut(known map[string]bool, names ...string) []string {
	var found []string
	seen := map[string]bool{}
	add := func(name string) {
		if seen[name] || known[name] {
			return
		}
		seen[name] = true
		if _, ok := d.Raw(name); ok {
			found = append(found, name)
		}
	}
	for _, name := range names {
		add(name)
	}
	for i := 0; i < len(found); i++ {
		raw, _ := d.Raw(found[i])
		for name := range references(raw) {
			add(name)
		}
	}
	return found
}

// Closure decodes a definition and all that it refers to, directly or not, without descriptions: complete input for
// managedfields.NewTypeConverter. It is nil if the definition is not there.
func (d *Definitions) Closure(name string) map[string]*spec.Schema {
	var closure map[string]*spec.Schema
	for _, name := range d.Reachable(name) {
		if closure == nil {
			closure = map[string]*spec.Schema{}
		}
		if s, ok := d.Lean(name); ok {
			closure[name] = s
		}
	}
	return closure
}

// references finds the names that the JSON of a schema refers to. Within strings a quote is escaped, so that no text of a
// description looks like a reference.
func references(raw string) iter.Seq[string] {
	const marker = `"$ref":"` + RefPrefix
	return func(yield func(string) bool) {
		for {
			_, after, ok := strings.Cut(raw, marker)
			if !ok {
				return
			}
			name, rest, _ := strings.Cut(after, `"`)
			if !yield(name) {
				return
			}
			raw = rest
		}
	}
}

// NameOf is the name of the definition of a built-in kind, empty if there is none. Kinds that every group shares, as
// DeleteOptions, are found under each group.
func (d *Definitions) NameOf(kind schema.GroupVersionKind) string {
	for _, name := range []string{
		packageOf(kind.Group) + "." + kind.Version + "." + kind.Kind,
		"io.k8s.apimachinery.pkg.apis.meta.v1." + kind.Kind,
		"io.k8s.api.autoscaling.v1." + kind.Kind, // the Scale of other groups
	} {
		raw, ok := d.Raw(name)
		if ok && strings.Contains(raw, kindMarker(kind)) {
			return name
		}
	}
	return ""
}

// kindMarker is how the kind stands in the JSON of its definition.
func kindMarker(kind schema.GroupVersionKind) string {
	return fmt.Sprintf(`{"group":%q,"kind":%q,"version":%q}`, kind.Group, kind.Kind, kind.Version)
}

// packageOf is the part of a definition's name that stands for the Go package of a group.
func packageOf(group string) string {
	switch group {
	case "":
		return "io.k8s.api.core"
	case "apiextensions.k8s.io":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
	case "apiregistration.k8s.io":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration"
	}
	first, _, _ := strings.Cut(group, ".")
	return "io.k8s.api." + first
}
