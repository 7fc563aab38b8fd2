package schema

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A report collects the errors of a value, and counts the constraints that it satisfies: of failed
// alternatives of anyOf and oneOf, Kubernetes explains the one with the most matches.
//
// The methods that add errors return false: the verdict on the violated rule.
type report struct {
	findings []finding
	matches  int
	until    *deadline
}

// A deadline stops a report, which is most of the work of a validation, when the context of the
// request ends.
type deadline struct {
	ctx    context.Context // of one validation only
	values int             // number of visited values
	ended  bool
}

// over checks the context at every 64th value.
func (d *deadline) over() bool {
	if d.values++; !d.ended && d.values%64 == 0 {
		d.ended = d.ctx.Err() != nil
	}
	return d.ended
}

type finding struct {
	name    string // path.name of the value; empty for the root and for findings without a place
	message string // the complete message of the validator; findings with equal messages are merged
	err     *field.Error
}

// add reports err for the named value. The error's field is set later.
func (r *report) add(name, format string, args []any, err *field.Error) bool {
	r.findings = append(r.findings, finding{name, name + " in body " + fmt.Sprintf(format, args...), err})
	return false
}

// invalid reports a value that violates a rule.
func (r *report) invalid(at *path, value any, format string, args ...any) bool {
	err := field.Invalid(nil, value, "")
	r.add(at.name(), format, args, err)
	err.Detail = r.findings[len(r.findings)-1].message
	return false
}

// typeInvalid reports a value whose type or format is not the wanted one; got is its type, or the
// value.
func (r *report) typeInvalid(at *path, wanted, got string) bool {
	r.invalid(at, got, "must be of type %s: %q", wanted, got)
	r.findings[len(r.findings)-1].err.Type = field.ErrorTypeTypeInvalid
	return false
}

// unplaced reports an error that Kubernetes attributes to the root, wherever it occurs.
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
