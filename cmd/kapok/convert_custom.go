package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/builtin/versions"
	customschema "github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	kjson "sigs.k8s.io/json"
)

// customKinds are the kinds of the CustomResourceDefinitions at hand.
type customKinds []*customKind

// customKind is a kind of a CustomResourceDefinition.
type customKind struct {
	schema.GroupKind
	versions []customVersion // the preferred first
	webhook  bool            // converts from one version to another
}

// customVersion is a version and what objects of it may hold.
type customVersion struct {
	name    string
	program *customschema.Program
}

// readDefinitions reads the definitions in files and directories.
func readDefinitions(paths []string, stdin io.Reader) (customKinds, error) {
	if slices.Contains(paths, "-") {
		return nil, errors.New("--crd must be a file or directory: the standard input is for what is to be converted")
	}
	documents, _, err := readManifests(paths, false, stdin)
	if err != nil {
		return nil, err
	}
	var kinds customKinds
	for _, d := range documents {
		if d.gvk.Group != apiextensionsv1.GroupName || d.gvk.Kind != "CustomResourceDefinition" {
			continue // definitions often come with other objects
		}
		kind, err := newCustomKind(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		if kinds.of(kind.GroupKind) != nil {
			return nil, fmt.Errorf("%s: kind %s is defined before", d, kind.GroupKind)
		}
		kinds = append(kinds, kind)
	}
	if len(paths) > 0 && len(kinds) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinition in %s", strings.Join(paths, ", "))
	}
	return kinds, nil
}

func newCustomKind(d document) (*customKind, error) {
	obj, err := versions.Convert(d.data, apiextensionsv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%T is no CustomResourceDefinition", obj)
	}
	spec := &definition.Spec
	kind := &customKind{
		GroupKind: schema.GroupKind{Group: spec.Group, Kind: spec.Names.Kind},
		webhook:   spec.Conversion != nil && spec.Conversion.Strategy == apiextensionsv1.WebhookConverter,
	}
	for _, v := range spec.Versions {
		var props *apiextensionsv1.JSONSchemaProps
		if v.Schema != nil {
			props = v.Schema.OpenAPIV3Schema
		}
		program, err := customschema.Compile(props, spec.PreserveUnknownFields)
		if err != nil {
			return nil, fmt.Errorf("schema of version %s: %w", v.Name, err)
		}
		kind.versions = append(kind.versions, customVersion{v.Name, program})
	}
	slices.SortStableFunc(kind.versions, func(a, b customVersion) int {
		return apiversion.CompareKubeAwareVersionStrings(b.name, a.name)
	})
	return kind, nil
}

// of returns a kind by name, nil if it is not among them.
func (kinds customKinds) of(gk schema.GroupKind) *customKind {
	for _, k := range kinds {
		if k.GroupKind == gk {
			return k
		}
	}
	return nil
}

// convert brings an object from one version to another, the preferred one if target is empty, as the strategy None does:
// what either schema does not know is dropped, and defaults are filled in.
func (k *customKind) convert(d document, target schema.GroupVersion) (map[string]any, error) {
	from := k.version(d.gvk.Version)
	if from == nil {
		return nil, fmt.Errorf("%s has no version %s, but %s", k.GroupKind, d.gvk.GroupVersion(), k.names())
	}
	to := &k.versions[0]
	if !target.Empty() {
		if to = k.version(target.Version); to == nil || target.Group != k.Group {
			return nil, fmt.Errorf("%s, Kind=%s cannot be converted to %s, but to %s", d.gvk.GroupVersion(), k.Kind, target, k.names())
		}
	}
	if k.webhook && from != to {
		return nil, fmt.Errorf("%s is converted by a webhook, which only a server calls", k.GroupKind)
	}
	var obj map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.data, &obj); err != nil {
		return nil, err
	}
	for _, v := range slices.Compact([]*customVersion{from, to}) {
		obj["apiVersion"] = schema.GroupVersion{Group: k.Group, Version: v.name}.String()
		if err := v.program.Normalise(obj, nil); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

func (k *customKind) version(name string) *customVersion {
	for i := range k.versions {
		if k.versions[i].name == name {
			return &k.versions[i]
		}
	}
	return nil
}

func (k *customKind) names() string {
	var all []string
	for _, v := range k.versions {
		all = append(all, schema.GroupVersion{Group: k.Group, Version: v.name}.String())
	}
	return strings.Join(all, ", ")
}
