package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/internal/emit"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
)

// generateDefinitions writes the definitions of a generator of controller-tools. Its own method
// takes as long for their YAML as for all else.
func generateDefinitions(c *genall.GenerationContext, g crd.Generator) error {
	for _, version := range g.CRDVersions {
		if version != apiextensionsv1.SchemeGroupVersion.Version { // it reports the error
			return g.Generate(c)
		}
	}
	isSet := func(option *bool) bool { return option != nil && *option }
	parser := &crd.Parser{
		Collector: c.Collector, Checker: c.Checker,
		AllowDangerousTypes:        isSet(g.AllowDangerousTypes),
		IgnoreUnexportedFields:     isSet(g.IgnoreUnexportedFields),
		GenerateEmbeddedObjectMeta: isSet(g.GenerateEmbeddedObjectMeta),
	}
	crd.AddKnownTypes(parser)
	for _, root := range c.Roots {
		parser.NeedPackage(root)
	}
	meta := crd.FindMetav1(c.Roots)
	if meta == nil {
		return nil
	}
	kinds := crd.FindKubeKinds(parser, meta)
	if len(kinds) == 0 {
		return nil
	}
	var header []byte
	if g.HeaderFile != "" {
		var err error
		if header, err = c.ReadFile(g.HeaderFile); err != nil {
			return err
		}
		header = bytes.ReplaceAll(header, []byte(" YEAR"), []byte(" "+g.Year))
	}
	for _, kind := range kinds {
		parser.NeedCRDFor(kind, g.MaxDescLen)
		definition := parser.CustomResourceDefinitions[kind]
		crd.FixTopLevelMetadata(definition)
		converted, err := crd.AsVersion(definition, apiextensionsv1.SchemeGroupVersion)
		if err != nil {
			return err
		}
		v1 := converted.(*apiextensionsv1.CustomResourceDefinition)
		if !isSet(g.OmitToolVersion) {
			if v1.Annotations == nil {
				v1.Annotations = map[string]string{}
			}
			v1.Annotations["controller-gen.kubebuilder.io/version"] = VersionOf("sigs.k8s.io/controller-tools")
		}
		for _, version := range v1.Spec.Versions {
			if version.Schema == nil {
				continue
			}
			if metadata, ok := version.Schema.OpenAPIV3Schema.Properties["metadata"]; ok {
				metadata.Description = ""
				version.Schema.OpenAPIV3Schema.Properties["metadata"] = metadata
			}
		}
		text, err := definitionYAML(v1, g.DeprecatedV1beta1CompatibilityPreserveUnknownFields)
		if err != nil {
			return fmt.Errorf("write the definition of %s: %w", kind, err)
		}
		for i := range max(1, len(g.CRDVersions)) {
			name := fmt.Sprintf("%s_%s.yaml", definition.Spec.Group, definition.Spec.Names.Plural)
			if i > 0 {
				name = strings.TrimSuffix(name, "yaml") + g.CRDVersions[i] + ".yaml"
			}
			if err := write(c, name, header, []byte("---\n"), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes a file of a generator.
func write(c *genall.GenerationContext, name string, parts ...[]byte) error {
	out, err := c.Open(nil, name)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	return out.Close()
}

// definitionYAML returns a definition as YAML, without its status and creation time, with
// spec.preserveUnknownFields if that is set.
func definitionYAML(definition *apiextensionsv1.CustomResourceDefinition, preserve *bool) ([]byte, error) {
	data, err := json.Marshal(definition)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	delete(tree, "status")
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	if spec, ok := tree["spec"].(map[string]any); ok && preserve != nil {
		spec["preserveUnknownFields"] = *preserve
	}
	return emit.YAML(tree)
}
