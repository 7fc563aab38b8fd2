package builtin

import (
	"sync"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
)

// withZeros completes a new status with the zeros that its Go type writes. They are found out when the first object is made:
// what the converter learns of a type costs more, the more types it knows, and a process uses few of all kinds.
func withZeros[T any](create func(obj resource.Tree)) func(obj resource.Tree) {
	zeros := sync.OnceValue(func() resource.Tree {
		blank, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(T))
		if err != nil { // T is a struct
			return nil
		}
		status, _ := blank["status"].(resource.Tree)
		return status
	})
	return func(obj resource.Tree) {
		create(obj)
		status, _ := obj["status"].(resource.Tree)
		for key, zero := range zeros() {
			if _, ok := status[key]; !ok && status != nil {
				status[key] = runtime.DeepCopyJSONValue(zero)
			}
		}
	}
}
