package policies

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const reservedSuffix = ".static.k8s.io"

// reserved is the detail of the error of a name that only objects from files may have.
const reserved = `names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`

// IsReservedName reports whether an error of validation is that of a name which only objects from
// files may have.
func IsReservedName(e *field.Error) bool { return e.Field == "metadata.name" && e.Detail == reserved }

// WarnOfReservedName adds a warning of a name that would be an error if ManifestBasedAdmission was
// on to those of a kind, which may be nil.
func WarnOfReservedName(further func(obj, old resource.Tree) []string) func(obj, old resource.Tree) []string {
	return func(obj, old resource.Tree) (warnings []string) {
		if old == nil && strings.HasSuffix(kind.Text(obj, "metadata", "name"), reservedSuffix) {
			warnings = append(warnings, "metadata.name: "+reserved)
		}
		if further != nil {
			warnings = append(warnings, further(obj, old)...)
		}
		return warnings
	}
}

// validateNotStatic rejects new names with the suffix of objects from files.
func validateNotStatic(name string, created bool) field.ErrorList {
	if !created || !strings.HasSuffix(name, reservedSuffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, reserved)}
}
