package versions

import (
	"github.com/kapok-dev/kapok/convert"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// definitions are the conversions of CustomResourceDefinitions. The library's results share memory
// with their input, so it is copied.
func definitions() []convert.Rule {
	return []convert.Rule{
		convert.Spoke(
			func(in *apiextensionsv1.CustomResourceDefinition, hub *apiextensions.CustomResourceDefinition) error {
				return apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(in.DeepCopy(), hub, nil)
			},
			func(hub *apiextensions.CustomResourceDefinition, out *apiextensionsv1.CustomResourceDefinition) error {
				return apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(hub.DeepCopy(), out, nil)
			},
		),
		convert.Spoke(
			func(in *apiextensionsv1beta1.CustomResourceDefinition, hub *apiextensions.CustomResourceDefinition) error {
				return apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(in.DeepCopy(), hub, nil)
			},
			func(hub *apiextensions.CustomResourceDefinition, out *apiextensionsv1beta1.CustomResourceDefinition) error {
				return apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(hub.DeepCopy(), out, nil)
			},
		),
	}
}
