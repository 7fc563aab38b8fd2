package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromTemplate returns a new pod of a template. It is in the namespace of its owner, is controlled
// by it, and takes a generated name that begins with the owner's.
func FromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, ref metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       owner.GetNamespace(),
		GenerateName:    namePrefix(owner.GetName()),
		Labels:          maps.Clone(template.Labels),
		Annotations:     maps.Clone(template.Annotations),
		Finalizers:      slices.Clone(template.Finalizers),
		OwnerReferences: []metav1.OwnerReference{ref},
	}}
	template.Spec.DeepCopyInto(&p.Spec)
	return p
}

// namePrefix separates a name and what the server appends to it by a dash, unless the name would be
// too long.
func namePrefix(name string) string {
	if prefix := name + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}
