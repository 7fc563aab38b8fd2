// Package openapi has the schemas of the built-in kinds: the definitions of Kubernetes' OpenAPI
// documents, generated from the Go types of k8s.io/api and related modules by the nested module
// gen.
//
// The definitions are stored in the binary as text, one per line, and take no heap memory until
// they are used. Each call decodes a new copy, so that the caller owns the result. There are no
// goroutines and no locks; all state is immutable.
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

// RefPrefix is the prefix of references to definitions.
const RefPrefix = "#/components/schemas/"

// Definitions are schemas by name, such as io.k8s.api.core.v1.Pod, in the form of OpenAPI v3.
type Definitions struct {
	text   string
	starts []uint32 // starts of the lines of text, which are sorted by name
}

// Builtin returns the definitions of the built-in kinds.
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

// Raw returns the JSON of a definition.
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

// RawV2 returns the JSON of a definition for OpenAPI v2, if its meaning differs from that of v3.
func (d *Definitions) RawV2(name string) (string, bool) {
	return d.Raw(name + "@v2")
}

// All returns the names and the JSON of all definitions, sorted by name.
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

// Get decodes a definition. The caller owns the schema.
func (d *Definitions) Get(name string) (*spec.Schema, bool) {
	raw, ok := d.Raw(name)
	if !ok {
		return nil, false
	}
	s, err := decode(raw)
	return s, err == nil
}

// Lean is Get without descriptions, which only people read.
func (d *Definitions) Lean(name string) (*spec.Schema, bool) {
	raw, ok := d.Raw(name)
	if !ok {
		return nil, false
	}
	s, err := decode(withoutDescriptions(raw))
	return s, err == nil
}

// decode decodes one definition. A test decodes all.
func decode(raw string) (*spec.Schema, error) {
	s := new(spec.Schema)
	if err := s.UnmarshalJSON([]byte(raw)); err != nil { // json.Unmarshal would scan the text twice
		return nil, err
	}
	return s, nil
}

// Reachable returns the names of definitions and of all that they refer to, directly or not, sorted
// by first mention.
func (d *Definitions) Reachable(names ...string) []string { return d.ReachableBut(nil, names...) }

// ReachableBut is Reachable without known definitions and without those that only they refer to.
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

// Closure decodes a definition and all that it refers to, directly or not, without descriptions, as
// managedfields.NewTypeConverter needs them. It returns nil if there is no such definition.
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

// references returns the names that the JSON of a schema refers to. Quotes within strings are
// escaped, so a description never looks like a reference.
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

// NameOf returns the name of a built-in kind's definition, "" if there is none. Kinds that every
// group has, such as DeleteOptions, are found under each group.
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

// kindMarker returns the part of a definition's JSON that names the kind.
func kindMarker(kind schema.GroupVersionKind) string {
	return fmt.Sprintf(`{"group":%q,"kind":%q,"version":%q}`, kind.Group, kind.Kind, kind.Version)
}

// packageOf returns the part of a definition's name for the Go package of a group.
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
