package generate

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// SchemaMarker is the marker for parts of a schema that no marker of controller-gen can say. Its
// value is JSON, of which each field replaces that of the schema:
//
//	// +kapok:schema={"oneOf":[{"required":["file"]},{"required":["url"]}]}
//
// controller-gen ignores it.
const SchemaMarker = "kapok:schema"

// schemaPart is the value of a SchemaMarker.
type schemaPart struct{ raw json.RawMessage }

// ParseMarker is called by package markers with what follows the = sign.
func (p *schemaPart) ParseMarker(_, _, text string) error {
	if err := json.Unmarshal([]byte(text), &apiextensionsv1.JSONSchemaProps{}); err != nil {
		return fmt.Errorf("want a part of a schema as JSON: %w", err)
	}
	p.raw = json.RawMessage(text)
	return nil
}

// ApplyToSchema is called by package crd for a field or a type with the marker.
func (p schemaPart) ApplyToSchema(_ *crdmarkers.SchemaContext, schema *apiextensionsv1.JSONSchemaProps) error {
	return json.Unmarshal(p.raw, schema)
}

// ApplyPriority makes the marker come last.
func (schemaPart) ApplyPriority() crdmarkers.ApplyPriority { return 100 }

// registerOwn adds the markers of this package for definitions.
func registerOwn(into *markers.Registry) error {
	for _, target := range []markers.TargetType{markers.DescribesField, markers.DescribesType} {
		definition, err := markers.MakeDefinition(SchemaMarker, target, schemaPart{})
		if err != nil {
			return fmt.Errorf("define the marker %s: %w", SchemaMarker, err)
		}
		if err := into.Register(definition); err != nil {
			return fmt.Errorf("define the marker %s: %w", SchemaMarker, err)
		}
		into.AddHelp(definition, markers.SimpleHelp("CRD validation",
			`sets parts of the schema for which controller-gen has no marker, as JSON: {"oneOf":[{"required":["a"]},{"required":["b"]}]}. controller-gen ignores it.`))
	}
	return nil
}
