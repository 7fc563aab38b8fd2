package derive

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// A reader reads types with the markers of crd. It is part of each generator.
type reader struct{}

// RegisterMarkers implements genall.Generator.
func (reader) RegisterMarkers(into *markers.Registry) error {
	return crd.Generator{}.RegisterMarkers(into)
}

// CheckFilter implements genall.NeedsTypeChecking.
func (reader) CheckFilter() loader.NodeFilter { return crd.Generator{}.CheckFilter() }

// options are those of crd that change schemas.
type options struct {
	reader
	// AllowDangerousTypes allows floats, as in crd.
	AllowDangerousTypes *bool `marker:",optional"`
	// GenerateEmbeddedObjectMeta gives embedded metadata its fields, as in crd.
	GenerateEmbeddedObjectMeta *bool `marker:",optional"`
}

type schema = apiextensionsv1.JSONSchemaProps

// A kind is one served version of a kind.
type kind struct {
	group, version, name string
	plural               string
	shortNames           []string
	namespaced           bool
	deprecated           bool
	schema               *schema
}

func (k *kind) apiVersion() string { return k.group + "/" + k.version }

// kindsOf returns the kinds in the packages of a context, ordered by group, name and version.
func kindsOf(c *genall.GenerationContext, o options) []kind {
	parser := &crd.Parser{
		Collector:                  c.Collector,
		Checker:                    c.Checker,
		AllowDangerousTypes:        o.AllowDangerousTypes != nil && *o.AllowDangerousTypes,
		GenerateEmbeddedObjectMeta: o.GenerateEmbeddedObjectMeta != nil && *o.GenerateEmbeddedObjectMeta,
	}
	crd.AddKnownTypes(parser)
	for _, root := range c.Roots {
		parser.NeedPackage(root)
	}
	meta := crd.FindMetav1(c.Roots)
	if meta == nil {
		return nil
	}
	var all []kind
	for _, of := range crd.FindKubeKinds(parser, meta) {
		parser.NeedCRDFor(of, nil)
		definition := parser.CustomResourceDefinitions[of]
		crd.FixTopLevelMetadata(definition)
		all = append(all, served(&definition)...)
	}
	slices.SortFunc(all, func(a, b kind) int {
		return slices.Compare([]string{a.group, a.name, a.version}, []string{b.group, b.name, b.version})
	})
	return all
}

// served returns the versions of a definition that are served.
func served(definition *apiextensionsv1.CustomResourceDefinition) []kind {
	var all []kind
	for _, v := range definition.Spec.Versions {
		if !v.Served || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		all = append(all, kind{
			group: definition.Spec.Group, version: v.Name, name: definition.Spec.Names.Kind,
			plural: definition.Spec.Names.Plural, shortNames: definition.Spec.Names.ShortNames,
			namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped, deprecated: v.Deprecated,
			schema: v.Schema.OpenAPIV3Schema,
		})
	}
	return all
}

// byVersion returns kinds by their groups and versions.
func byVersion(all []kind) map[string][]kind {
	groups := map[string][]kind{}
	for _, k := range all {
		groups[k.apiVersion()] = append(groups[k.apiVersion()], k)
	}
	return groups
}

// write writes a file of a generator.
func write(c *genall.GenerationContext, name string, content []byte) error {
	file, err := c.Open(nil, name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// fields returns the names of the properties of an object, in the order in which they are shown:
// those of every object first, then the required ones.
func fields(s *schema) []string {
	head := []string{"apiVersion", "kind", "metadata", "spec", "status"}
	rank := func(name string) int {
		switch at := slices.Index(head, name); {
		case at >= 0:
			return at
		case slices.Contains(s.Required, name):
			return len(head)
		}
		return len(head) + 1
	}
	names := slices.Collect(maps.Keys(s.Properties))
	slices.SortFunc(names, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return names
}

// isTrue reports whether an optional flag is set.
func isTrue(flag *bool) bool { return flag != nil && *flag }
