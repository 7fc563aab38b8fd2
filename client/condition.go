package client

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition sets the condition of a type among those of an object, and says whether that changed anything. The time of
// the transition is changed with the status alone, to that of c, or to now. Set c.ObservedGeneration to the generation of the object.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition) (changed bool) {
	return meta.SetStatusCondition(conditions, c)
}

// FindCondition returns the condition of a type, or nil. It points into conditions.
func FindCondition(conditions []metav1.Condition, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, conditionType)
}

// IsConditionTrue says whether the condition of a type is there, and true.
func IsConditionTrue(conditions []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionTrue(conditions, conditionType)
}
