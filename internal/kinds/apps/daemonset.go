package apps

import (
	"reflect"
	"strconv"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
)

// DaemonSets have a generation of their template for clients of extensions/v1beta1, where it is a
// field. In later versions it is an annotation. Clients cannot set either.

func startTemplateGeneration(obj resource.Tree) {
	setTemplateGeneration(obj, max(templateGeneration(obj), 1))
}

func countTemplateGeneration(obj, old resource.Tree) {
	n := templateGeneration(old)
	if !reflect.DeepEqual(kind.Get(obj, "spec", "template"), kind.Get(old, "spec", "template")) {
		n++
	}
	setTemplateGeneration(obj, n)
}

func keepTemplateGeneration(obj, old resource.Tree) {
	setTemplateGeneration(obj, templateGeneration(old))
}

func templateGeneration(obj resource.Tree) (n int64) {
	if hasTemplateGeneration(obj) {
		n, _ = kind.Get(obj, "spec", "templateGeneration").(int64)
	} else {
		n, _ = strconv.ParseInt(kind.Text(obj, "metadata", "annotations", appsv1.DeprecatedTemplateGeneration), 10, 64)
	}
	return n
}

func setTemplateGeneration(obj resource.Tree, n int64) {
	if hasTemplateGeneration(obj) {
		kind.Put(obj, n, "spec", "templateGeneration")
	} else {
		kind.Put(obj, strconv.FormatInt(n, 10), "metadata", "annotations", appsv1.DeprecatedTemplateGeneration)
	}
}

// hasTemplateGeneration reports whether an object is in the version with the field.
func hasTemplateGeneration(obj resource.Tree) bool {
	return kind.Text(obj, "apiVersion") == extensionsv1beta1.SchemeGroupVersion.String()
}
