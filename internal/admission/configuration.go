package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// DecodeConfiguration decodes the configuration of a plugin, in JSON or YAML, whose kind must be
// gvk. Unknown and repeated fields are errors.
func DecodeConfiguration(data []byte, gvk schema.GroupVersionKind, into any) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return err
	}
	if want := gvk.GroupVersion().String(); head.APIVersion != want || head.Kind != gvk.Kind {
		return fmt.Errorf("kind is %q and apiVersion is %q: want a %s of %s", head.Kind, head.APIVersion, gvk.Kind, want)
	}
	return yaml.UnmarshalStrict(data, into)
}
