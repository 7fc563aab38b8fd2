package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/versions"
	customschema "github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	kjson "sigs.k8s.io/json"
)

// customKinds are the kinds of the CustomResourceDefinitions of --crd.
type customKinds []*customKind

// customKind is a kind of a CustomResourceDefinition.
type customKind struct {
	schema.GroupKind
	versions []customVersion // the preferred first
	webhook  bool            // converts from one version to another
}

// customVersion is a version and the schema of its objects.
type customVersion struct {
	name    string
	program *customschema.Program
}

// readDefinitions reads the definitions in files and directories, and returns their unknown and
// duplicate fields.
func readDefinitions(paths []string, stdin io.Reader) (kinds customKinds, found findings, err error) {
	if slices.Contains(paths, "-") {
		return nil, nil, errors.New("--crd must be a file or directory: the standard input is for the objects to convert")
	}
	manifests, err := readManifests(paths, false, stdin)
	if err != nil {
		return nil, nil, err
	}
	found = manifests.findings
	for _, d := range manifests.documents {
		if d.gvk.Group != apiextensionsv1.GroupName || d.gvk.Kind != "CustomResourceDefinition" {
			continue // definitions often come with other objects
		}
		var strict []error
		kind, err := newCustomKind(d, &strict)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d, err)
		}
		found.add(d, strict...)
		if kinds.of(kind.GroupKind) != nil {
			return nil, nil, fmt.Errorf("%s: kind %s is defined twice", d, kind.GroupKind)
		}
		kinds = append(kinds, kind)
	}
	if len(paths) > 0 && len(kinds) == 0 {
		return nil, nil, fmt.Errorf("no CustomResourceDefinition in %s", strings.Join(paths, ", "))
	}
	return kinds, found, nil
}

func newCustomKind(d document, strict *[]error) (*customKind, error) {
	written, err := versions.Decode(d.data, strict)
	if err != nil {
		return nil, err
	}
	if err := acceptable(written); err != nil {
		return nil, fmt.Errorf("the definition is invalid: %w", err)
	}
	obj, err := versions.Convert(d.data, apiextensionsv1.SchemeGroupVersion, nil)
	if err != nil {
		return nil, err
	}
	definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%T is not a CustomResourceDefinition", obj)
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

// convert converts an object to another version, the preferred one if target is empty, as the
// strategy None does: it drops fields that are unknown in either schema, and fills in defaults.
// Fields that are unknown in the version of the object, and duplicate fields, are added to strict.
func (k *customKind) convert(d document, target schema.GroupVersion, strict *[]error) (map[string]any, error) {
	from := k.version(d.gvk.Version)
	if from == nil {
		return nil, fmt.Errorf("%s has no version %s, only %s", k.GroupKind, d.gvk.GroupVersion(), k.names())
	}
	to := &k.versions[0]
	if !target.Empty() {
		if to = k.version(target.Version); to == nil || target.Group != k.Group {
			return nil, fmt.Errorf("%s, Kind=%s cannot be converted to %s, only to %s", d.gvk.GroupVersion(), k.Kind, target, k.names())
		}
	}
	if k.webhook && from != to {
		return nil, fmt.Errorf("%s is converted by a webhook, which kapok convert does not call", k.GroupKind)
	}
	var obj map[string]any
	found, err := kjson.UnmarshalStrict(d.data, &obj)
	if err != nil {
		return nil, err
	}
	var unknown []string
	if err := tidyMetadata(obj, &unknown); err != nil {
		return nil, err
	}
	if err := from.program.Normalise(obj, &unknown); err != nil {
		return nil, err
	}
	for _, path := range unknown {
		found = append(found, fmt.Errorf("unknown field %q", path))
	}
	*strict = append(*strict, found...)
	if to != from {
		obj["apiVersion"] = schema.GroupVersion{Group: k.Group, Version: to.name}.String()
		if err := to.program.Normalise(obj, nil); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

// tidyMetadata drops unknown fields of ObjectMeta.
func tidyMetadata(obj map[string]any, unknown *[]string) error {
	written, found := obj["metadata"]
	if !found {
		return nil
	}
	data, err := json.Marshal(written)
	if err != nil {
		return err
	}
	var known metav1.ObjectMeta
	dropped, err := kjson.UnmarshalStrict(data, &known)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if len(dropped) == 0 {
		return nil // and stays as it is written
	}
	for _, err := range dropped {
		if at := kjson.FieldError(nil); errors.As(err, &at) {
			*unknown = append(*unknown, "metadata."+at.FieldPath())
		}
	}
	if obj["metadata"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&known); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
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
