package client

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition sets the condition of c.Type and reports whether that changed anything.
// LastTransitionTime changes only with the status: to that of c, or to now. Set
// c.ObservedGeneration to the generation of the object.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition) (changed bool) {
	return meta.SetStatusCondition(conditions, c)
}

// FindCondition returns the condition of a type, or nil. The result points into conditions.
func FindCondition(conditions []metav1.Condition, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, conditionType)
}

// IsConditionTrue reports whether the condition of a type exists and is true.
func IsConditionTrue(conditions []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionTrue(conditions, conditionType)
}
