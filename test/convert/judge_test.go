package convert

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/kubectl/cmd/convert" // registers all groups
)

// judge converts as Kubernetes does: to the internal version with defaults, and from it.
func judge(data []byte, target schema.GroupVersion) (runtime.Object, error) {
	internal, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.ConvertToVersion(internal, target)
}

// form returns an object as it is printed, with sorted fields.
func form(obj runtime.Object) (any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var tree any
	return tree, json.Unmarshal(data, &tree)
}
