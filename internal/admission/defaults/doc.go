// Package defaults has Kubernetes' small plugins that complete objects: each is a type with
// Kubernetes' name, in a file of its own. Plugins for classes set the class that is marked as the
// default one.
//
// The plugins read the state at each request. They start no goroutine and have no locks.
package defaults

import (
	"bytes"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// is reports whether a request is for the objects of a resource, and not for a subresource.
func is(r *resource.Request, group, plural string) bool {
	return r.Subresource == "" && r.Definition.Plural == plural && r.Definition.Group == group
}

// newest returns the newest object of a resource that has an annotation with the value "true", and
// the first by name of those created in the same second; nil if there is none.
func newest(st *state.State, gr schema.GroupResource, annotations ...string) (*object.Object, error) {
	var best *object.Object
	for o := range st.Snapshot(gr).All("") {
		marked, err := bears(o, annotations)
		if err != nil {
			return nil, err
		}
		if marked && (best == nil || o.Meta.Created.After(best.Meta.Created)) {
			best = o
		}
	}
	return best, nil
}

func bears(o *object.Object, annotations []string) (bool, error) {
	for _, a := range annotations {
		if !bytes.Contains(o.Raw, []byte(a)) {
			continue
		}
		tree, err := o.Tree()
		if err != nil {
			return false, err
		}
		if value, _, _ := unstructured.NestedString(tree, "metadata", "annotations", a); value == "true" {
			return true, nil
		}
	}
	return false, nil
}

// addFinalizer adds a finalizer to an object unless it is present.
func addFinalizer(obj resource.Tree, name string) {
	metadata := admission.Child(obj, "metadata")
	finalizers, _ := metadata["finalizers"].([]any)
	for _, f := range finalizers {
		if f == name {
			return
		}
	}
	metadata["finalizers"] = append(finalizers, name)
}
