package cache

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TransformStripManagedFields keeps objects without their managedFields.
func TransformStripManagedFields() TransformFunc {
	return func(in any) (any, error) {
		if obj, ok := in.(metav1.Object); ok && obj.GetManagedFields() != nil {
			obj.SetManagedFields(nil)
		}
		return in, nil
	}
}
