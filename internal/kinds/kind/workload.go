package kind

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Typed returns the column with another type than string.
func Typed(of string, column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = of
	return column
}

// ContainerColumns are the columns of [ContainerCells].
func ContainerColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		Column("Containers", "Names of each container in the template."),
		Column("Images", "Images referenced by each container in the template."),
	}
}

// WorkloadColumns are the last, wide columns of kinds with a pod template.
func WorkloadColumns(selector ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	all := append(ContainerColumns(), selector...)
	for i := range all {
		all[i] = Wide(all[i])
	}
	return all
}

// TemplateCells returns the names and images of a template's containers, "" if there is no
// template.
func TemplateCells(template *corev1.PodTemplateSpec) (names, images string) {
	if template == nil {
		return "", ""
	}
	return ContainerCells(template.Spec.Containers)
}
