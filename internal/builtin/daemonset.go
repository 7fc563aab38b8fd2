package builtin

import (
	"reflect"
	"strconv"

	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
)

// The templates of daemon sets are counted, for clients of extensions/v1beta1,
// where the count is a field. Since then it is an annotation, and as little the
// client's to choose.

func startTemplateGeneration(obj resource.Tree) {
	setTemplateGeneration(obj, max(templateGeneration(obj), 1))
}

func countTemplateGeneration(obj, old resource.Tree) {
	n := templateGeneration(old)
	if !reflect.DeepEqual(get(obj, "spec", "template"), get(old, "spec", "template")) {
		n++
	}
	setTemplateGeneration(obj, n)
}

func keepTemplateGeneration(obj, old resource.Tree) {
	setTemplateGeneration(obj, templateGeneration(old))
}

func templateGeneration(obj resource.Tree) (n int64) {
	if hasTemplateGeneration(obj) {
		n, _ = get(obj, "spec", "templateGeneration").(int64)
	} else {
		n, _ = strconv.ParseInt(text(obj, "metadata", "annotations", appsv1.DeprecatedTemplateGeneration), 10, 64)
	}
	return n
}

func setTemplateGeneration(obj resource.Tree, n int64) {
	if hasTemplateGeneration(obj) {
		put(obj, n, "spec", "templateGeneration")
	} else {
		put(obj, strconv.FormatInt(n, 10), "metadata", "annotations", appsv1.DeprecatedTemplateGeneration)
	}
}

// hasTemplateGeneration says whether an object is in the version that has the field.
func hasTemplateGeneration(obj resource.Tree) bool {
	return text(obj, "apiVersion") == extensionsv1beta1.SchemeGroupVersion.String()
}
