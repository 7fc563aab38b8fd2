package builtin

import (
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
)

// withZeros completes a new status with the zeros that its Go type writes.
func withZeros[T any](create func(obj resource.Tree)) func(obj resource.Tree) {
	blank, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(T))
	zeros, _ := blank["status"].(resource.Tree)
	if err != nil || len(zeros) == 0 {
		return create
	}
	return func(obj resource.Tree) {
		create(obj)
		status, _ := obj["status"].(resource.Tree)
		for key, zero := range zeros {
			if _, ok := status[key]; !ok && status != nil {
				status[key] = runtime.DeepCopyJSONValue(zero)
			}
		}
	}
}
