package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/object"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A manifest is a stored CustomResourceDefinition without its schemas, which are large and seldom
// needed.
type manifest struct {
	Metadata metav1.ObjectMeta                              `json:"metadata"`
	Spec     manifestSpec                                   `json:"spec"`
	Status   apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`

	object *object.Object // the stored object
}

// A source has the schemas of a definition: the newest object that contains them, and the programs
// that are compiled already. It is safe for concurrent use.
type source struct {
	newest   atomic.Pointer[object.Object]
	programs *programs
}

func newSource(o *object.Object, programs *programs) *source {
	s := &source{programs: programs}
	s.newest.Store(o)
	return s
}

type manifestSpec struct {
	Group                 string                                        `json:"group"`
	Names                 apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
	Scope                 apiextensionsv1.ResourceScope                 `json:"scope"`
	Versions              []manifestVersion                             `json:"versions"`
	Conversion            *apiextensionsv1.CustomResourceConversion     `json:"conversion"`
	PreserveUnknownFields bool                                          `json:"preserveUnknownFields"`
}

type manifestVersion struct {
	Name                     string                                           `json:"name"`
	Served                   bool                                             `json:"served"`
	Storage                  bool                                             `json:"storage"`
	Deprecated               bool                                             `json:"deprecated"`
	DeprecationWarning       *string                                          `json:"deprecationWarning"`
	Subresources             *apiextensionsv1.CustomResourceSubresources      `json:"subresources"`
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns"`
	SelectableFields         []apiextensionsv1.SelectableField                `json:"selectableFields"`
}

func readManifest(o *object.Object) (*manifest, error) {
	m := &manifest{object: o}
	if err := json.Unmarshal(withoutSchemas(o.Raw), m); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return m, nil
}

// withoutSchemas replaces the schemas of a stored definition, which are most of it, by null. Stored
// JSON has no white space.
func withoutSchemas(raw []byte) []byte {
	const key = `"openAPIV3Schema":`
	var rest []byte
	for {
		at := bytes.Index(raw, []byte(key+"{"))
		if at < 0 {
			break
		}
		at += len(key)
		rest = append(append(rest, raw[:at]...), "null"...)
		raw = raw[at+lengthOf(raw[at:]):]
	}
	if rest == nil {
		return raw
	}
	return append(rest, raw...)
}

// lengthOf returns the length of the JSON object at the start of raw, or len(raw) if the object
// does not end.
func lengthOf(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(raw)
}

// readSchema decodes the schema of one version; nil if it has none.
func readSchema(o *object.Object, version string) (*apiextensionsv1.JSONSchemaProps, error) {
	raw, err := rawSchema(o, version)
	if err != nil {
		return nil, err
	}
	return parseSchema(o, version, raw)
}

func parseSchema(o *object.Object, version string, raw json.RawMessage) (*apiextensionsv1.JSONSchemaProps, error) {
	if raw == nil {
		return nil, nil
	}
	s := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("read schema of version %s of %s: %w", version, o.Key, err)
	}
	return s, nil
}

// rawSchema returns the JSON of the schema of one version; nil if it has none.
func rawSchema(o *object.Object, version string) (json.RawMessage, error) {
	all, err := rawSchemas(o)
	return all[version], err
}

// rawSchemas returns the JSON of the schemas of all versions that have one.
func rawSchemas(o *object.Object) (map[string]json.RawMessage, error) {
	var m struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(o.Raw, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	all := make(map[string]json.RawMessage, len(m.Spec.Versions))
	for _, v := range m.Spec.Versions {
		if raw := v.Schema.OpenAPIV3Schema; raw != nil && string(raw) != "null" && all[v.Name] == nil {
			all[v.Name] = raw
		}
	}
	return all, nil
}

// terminating reports whether the objects of the definition are being deleted.
func (m *manifest) terminating() bool {
	return m.Metadata.DeletionTimestamp != nil || m.is(apiextensionsv1.Terminating)
}

func (m *manifest) is(condition apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	c := findCondition(m.Status.Conditions, condition)
	return c != nil && c.Status == apiextensionsv1.ConditionTrue
}
