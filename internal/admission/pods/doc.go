// Package pods has Kubernetes' plugins about pods that are small enough for one file: each is a
// type with Kubernetes' name.
//
//	AlwaysPullImages                 images are pulled each time a container starts
//	ExtendedResourceToleration       pods tolerate the taints of the extended resources they request
//	LimitPodHardAntiAffinityTopology pods keep apart on nodes only, not in zones
//	NodeDeclaredFeatureValidator     resizes need features that the node declares
//	PodNodeSelector                  a namespace selects the nodes of its pods
//	PodResizeValidator               resizes fit on the node
//	PodTolerationRestriction         a namespace adds tolerations to its pods, and limits them
//	PodTopologyLabels                pods have the zone and the region of their node
//
// The behaviour is that of the packages below k8s.io/kubernetes/plugin/pkg/admission, except that
// the plugins read the state and not caches: they have no state of their own, start no goroutine,
// and have no locks.
package pods

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	pods       = schema.GroupResource{Resource: "pods"}
	nodes      = schema.GroupResource{Resource: "nodes"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// is reports whether a request is for pods, or for a subresource of them.
func is(r *resource.Request, subresource string) bool {
	return r.Subresource == subresource && r.Definition.Plural == pods.Resource && r.Definition.Group == pods.Group
}

// writes reports whether a request creates or updates pods, and not a subresource of them.
func writes(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) && is(r, "")
}

// containers iterates over the containers of a pod with their paths, in the order in which
// Kubernetes visits them.
func containers(pod resource.Tree) iter.Seq2[*field.Path, resource.Tree] {
	spec, _ := pod["spec"].(map[string]any)
	return func(yield func(*field.Path, resource.Tree) bool) {
		for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
			for i, c := range objects(spec, list) {
				if !yield(field.NewPath("spec", list).Index(i), c) {
					return
				}
			}
		}
	}
}

// objects iterates over the objects of a list with their indices.
func objects(obj resource.Tree, fields ...string) iter.Seq2[int, resource.Tree] {
	value, _, _ := unstructured.NestedFieldNoCopy(obj, fields...)
	list, _ := value.([]any)
	return func(yield func(int, resource.Tree) bool) {
		for i, item := range list {
			if o, ok := item.(map[string]any); ok && !yield(i, o) {
				return
			}
		}
	}
}

// text returns a string within an object, "" if there is none.
func text(obj resource.Tree, fields ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(obj, fields...)
	s, _ := value.(string)
	return s
}

// refuse returns the error of a plugin that rejects a pod. Unlike admission.Forbidden, it does not
// name a pod without a name by its generateName.
func refuse(pod resource.Tree, err error) error {
	return apierrors.NewForbidden(pods, text(pod, "metadata", "name"), err)
}

// annotation returns an annotation of a namespace. The error is that of a namespace that does not
// exist.
func annotation(st *state.State, namespace, key string) (value string, found bool, err error) {
	o, _ := st.Get(object.Key{Resource: namespaces, Name: namespace})
	if o == nil {
		return "", false, apierrors.NewNotFound(namespaces, namespace)
	}
	if !bytes.Contains(o.Raw, []byte(key)) {
		return "", false, nil
	}
	tree, err := o.Tree()
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", o.Key, err)
	}
	return unstructured.NestedString(tree, "metadata", "annotations", key)
}
