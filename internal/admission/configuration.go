package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// DecodeConfiguration decodes the configuration of a plugin, in JSON or YAML, whose kind must be
// one of kinds, the first of which is preferred. Unknown and repeated fields are errors.
func DecodeConfiguration(data []byte, into any, kinds ...schema.GroupVersionKind) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return err
	}
	if !slices.Contains(kinds, schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)) {
		return fmt.Errorf("kind is %q and apiVersion is %q: want a %s of %s", head.Kind, head.APIVersion, kinds[0].Kind, kinds[0].GroupVersion())
	}
	return yaml.UnmarshalStrict(data, into)
}
