package apps

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateControllerRevision returns the errors of a revision, whose data is an immutable object.
func validateControllerRevision(r, old *appsv1.ControllerRevision) field.ErrorList {
	all := apivalidation.ValidateNonnegativeField(r.Revision, field.NewPath("revision"))
	path := field.NewPath("data")
	if old != nil {
		return append(all, apivalidation.ValidateImmutableField(r.Data, old.Data, path)...)
	}
	var data any
	if r.Data.Raw == nil {
		return append(all, field.Required(path, "data is mandatory"))
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return append(all, field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
	}
	if data == nil {
		return append(all, field.Required(path, "data is mandatory"))
	}
	if _, isObject := data.(map[string]any); !isObject {
		return append(all, field.Required(path, "data must be a valid JSON object"))
	}
	return all
}
