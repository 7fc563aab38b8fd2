package v1alpha1

import (
	"example.com/sample/pkg/apis/workshop"

	"k8s.io/apimachinery/pkg/conversion"
)

func Convert_v1alpha1_LatheSpec_To_workshop_LatheSpec(in *LatheSpec, out *workshop.LatheSpec, s conversion.Scope) error {
	out.Speed = in.RevolutionsPerMinute
	return autoConvert_v1alpha1_LatheSpec_To_workshop_LatheSpec(in, out, s)
}

func Convert_workshop_LatheSpec_To_v1alpha1_LatheSpec(in *workshop.LatheSpec, out *LatheSpec, s conversion.Scope) error {
	out.RevolutionsPerMinute = in.Speed
	return autoConvert_workshop_LatheSpec_To_v1alpha1_LatheSpec(in, out, s)
}
