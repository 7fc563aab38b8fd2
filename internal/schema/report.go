package schema

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// report collects what is wrong with a value, and how much of it is right: among failed alternatives of anyOf and oneOf
// Kubernetes explains the one that had the most matches.
//
// The methods that add to a report return false, the verdict of the rule that was broken.
type report struct {
	findings []finding
	matches  int
}

type finding struct {
	name    string // of the value, as path.name spells it; empty for the root and for findings without a place
	message string // the whole message of the validator; findings with equal messages are one
	err     *field.Error
}

// add reports err about the named value. The error's field is set later.
func (r *report) add(name, format string, args []any, err *field.Error) bool {
	r.findings = append(r.findings, finding{name, name + " in body " + fmt.Sprintf(format, args...), err})
	return false
}

// invalid reports a value that breaks a rule.
func (r *report) invalid(at *path, value any, format string, args ...any) bool {
	err := field.Invalid(nil, value, "")
	r.add(at.name(), format, args, err)
	err.Detail = r.findings[len(r.findings)-1].message
	return false
}

// typeInvalid reports a value that is of another type or format than wanted; got is that type, or the value.
func (r *report) typeInvalid(at *path, wanted, got string) bool {
	r.invalid(at, got, "must be of type %s: %q", wanted, got)
	r.findings[len(r.findings)-1].err.Type = field.ErrorTypeTypeInvalid
	return false
}

// unplaced reports what Kubernetes attributes to the root, wherever it is found.
func (r *report) unplaced(format string, args ...any) bool {
	message := fmt.Sprintf(format, args...)
	r.findings = append(r.findings, finding{message: message, err: field.Invalid(nil, "", message)})
	return false
}

// merge adds another report's findings and matches.
func (r *report) merge(other *report) {
	r.findings = append(r.findings, other.findings...)
	r.matches += other.matches
}

// errors returns the findings below base, without repetitions.
func (r *report) errors(base *field.Path) field.ErrorList {
	if len(r.findings) == 0 {
		return nil
	}
	errs := make(field.ErrorList, 0, len(r.findings))
	seen := make(map[string]bool, len(r.findings))
	for _, f := range r.findings {
		if seen[f.message] {
			continue
		}
		seen[f.message] = true
		at := base
		if f.name != "" && f.name != "." {
			at = base.Child(strings.TrimPrefix(f.name, "."))
		}
		f.err.Field = at.String()
		errs = append(errs, f.err)
	}
	return errs
}
