package open

import (
	"github.com/kapok-dev/kapok/convert"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// At is a kind of the reader, in the version that is not the hub.
type At struct{ corev1.Pod }

// v1 is the package of the hub.
var v1 struct{ GroupVersion schema.GroupVersion }

var (
	scheme *runtime.Scheme
	obj    *At
)

func toHub(*At, *corev1.Pod) error { return nil }

func fromHub(*corev1.Pod, *At) error { return nil }
