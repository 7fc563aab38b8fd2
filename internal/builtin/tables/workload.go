package tables

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typed makes a column one of values that are no texts.
func typed(of string, column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Type = of
	return column
}

// containerColumns are those of containerCells.
func containerColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column("Containers", "Names of each container in the template."),
		column("Images", "Images referenced by each container in the template."),
	}
}

// workloadColumns end the tables of what makes pods from a template.
func workloadColumns(selector ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	all := append(containerColumns(), selector...)
	for i := range all {
		all[i] = wide(all[i])
	}
	return all
}

func templateCells(template *corev1.PodTemplateSpec) (names, images string) {
	if template == nil {
		return "", ""
	}
	return containerCells(template.Spec.Containers)
}
