package kind

import (
	"sync"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
)

// withZeros adds to the status of a new object the fields that its Go type always encodes. They are
// computed on first use: package typed compiles each type that it sees, and a process uses few of
// all kinds.
func withZeros[P runtime.Object](create func(obj resource.Tree)) func(obj resource.Tree) {
	zeros := sync.OnceValue(func() resource.Tree {
		blank, err := typed.ToTree(New[P]())
		if err != nil { // P points to a struct
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
