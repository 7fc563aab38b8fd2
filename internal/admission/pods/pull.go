package pods

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AlwaysPullImages is Kubernetes' plugin of that name: it sets the pull policy of all images to
// Always, so that a pod can only use images that its own credentials can pull. An update without
// new images is not changed.
type AlwaysPullImages struct{}

const always = string(corev1.PullAlways)

// Handles implements admission.Plugin.
func (AlwaysPullImages) Handles(r *resource.Request, op resource.Operation) bool {
	return writes(r, op)
}

// Mutate implements admission.Mutator.
func (AlwaysPullImages) Mutate(_ context.Context, a *resource.Admitted) error {
	if keepsImages(a) {
		return nil
	}
	for _, c := range containers(a.Object) {
		c["imagePullPolicy"] = always
	}
	for _, v := range objects(a.Object, "spec", "volumes") {
		if image, _ := v["image"].(map[string]any); image != nil {
			image["pullPolicy"] = always
		}
	}
	return nil
}

// Validate implements admission.Validator. It rejects policies that a later plugin has set.
func (AlwaysPullImages) Validate(_ context.Context, a *resource.Admitted) error {
	if keepsImages(a) {
		return nil
	}
	var errs []error
	check := func(policy any, at *field.Path) {
		if policy != always {
			given, _ := policy.(string)
			errs = append(errs, admission.Forbidden(a, field.NotSupported(at, corev1.PullPolicy(given), []string{always})))
		}
	}
	for at, c := range containers(a.Object) {
		check(c["imagePullPolicy"], at.Child("imagePullPolicy"))
	}
	for i, v := range objects(a.Object, "spec", "volumes") {
		if image, _ := v["image"].(map[string]any); image != nil {
			check(image["pullPolicy"], field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"))
		}
	}
	return refusals(errs)
}

// refusals returns the errors of a pod as one. In Kubernetes such a list has no Status: the
// response is 500 with all of the texts.
func refusals(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return several(causes.Join(errs))
}

// several is the text of errors. It does not wrap them, because the response must not be that of
// one of them.
type several string

// Error implements error.
func (s several) Error() string { return string(s) }

// keepsImages reports whether a request is an update whose containers have no new images.
func keepsImages(a *resource.Admitted) bool {
	if a.Operation != resource.OperationUpdate {
		return false
	}
	known := map[any]bool{}
	for _, c := range containers(a.Old) {
		known[text(c, "image")] = true
	}
	for _, c := range containers(a.Object) {
		if !known[text(c, "image")] {
			return false
		}
	}
	return true
}
