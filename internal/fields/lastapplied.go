package fields

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// kubectl is the manager name of kubectl apply, which originally applied client-side, and kept the
// applied object in an annotation. The change to server-side apply causes no conflicts, and the
// annotation is kept up to date for the way back.
const (
	kubectl               = "kubectl"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// appliedByClient returns the fields of live that still have the values that kubectl applied
// client-side.
func (a *application) appliedByClient() fields {
	annotation := (&unstructured.Unstructured{Object: a.live}).GetAnnotations()[lastAppliedAnnotation]
	if annotation == "" {
		return nil
	}
	live, err := a.typedOf(a.live, false)
	if err != nil {
		return nil
	}
	var last unstructured.Unstructured
	if err := json.Unmarshal([]byte(annotation), &last); err != nil || last.GetAPIVersion() != a.apiVersion {
		return nil
	}
	applied, err := a.typedOf(last.Object, false)
	if err != nil {
		return nil
	}
	c, ok := compare(live.node, applied.tree, live.tree)
	if !ok {
		return nil
	}
	return difference(fieldsOf(applied.node, applied.tree), c.touched())
}

// notIn returns the conflicts about fields that are not in a set.
func (c conflicts) notIn(set fields) (rest conflicts) {
	for _, one := range c {
		if set == nil || one.path == nil || !has(set, one.path...) {
			rest = append(rest, one)
		}
	}
	return rest
}

// noteLastApplied updates the annotation of an object that has it.
func noteLastApplied(obj, applied Tree) error {
	u := &unstructured.Unstructured{Object: obj}
	annotations := u.GetAnnotations()
	if annotations[lastAppliedAnnotation] == "" {
		return nil
	}
	bare := &unstructured.Unstructured{Object: cloneTree(applied)}
	others := bare.GetAnnotations()
	delete(others, lastAppliedAnnotation)
	bare.SetAnnotations(others)
	text, err := runtime.Encode(unstructured.UnstructuredJSONScheme, bare)
	if err != nil {
		return fmt.Errorf("failed to build last-applied annotation: couldn't encode object into last applied annotation: %v", err)
	}
	annotations[lastAppliedAnnotation] = string(text)
	if validation.ValidateAnnotationsSize(annotations) != nil {
		delete(annotations, lastAppliedAnnotation)
	}
	u.SetAnnotations(annotations)
	return nil
}
