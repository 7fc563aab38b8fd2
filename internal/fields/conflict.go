package fields

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// conflict is a field that an applier wants to set, but another manager owns.
type conflict struct {
	manager identity
	path    []string // nil if there are more conflicts than are reported
	fresh   bool
}

// conflicts are ordered by manager, and then by field.
type conflicts []conflict

// maxConflictElements limits the conflicts that are reported to a client, by the number of all
// elements in their paths: for a deep object it could be quadratic in its size.
const maxConflictElements = 1 << 20

// newConflicts returns a conflict for each field in a set that an entry owns, as long as there is
// room for its path.
func newConflicts(e entry, set fields, room *int) (found conflicts) {
	each(set, nil, func(path []string) bool {
		if *room -= len(path); *room < 0 {
			found = append(found, conflict{manager: e.identity})
			return false
		}
		found = append(found, conflict{e.identity, slices.Clone(path), e.fresh})
		return true
	})
	return found
}

// status returns the error for the client.
func (c conflicts) status() error {
	byManager := map[string]conflicts{}
	for _, one := range c {
		id := one.manager.String()
		byManager[id] = append(byManager[id], one)
	}
	var causes []metav1.StatusCause
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(byManager)) {
		name := byManager[id][0].manager.describe()
		lines = append(lines, fmt.Sprintf("conflicts with %s:", name))
		for _, one := range byManager[id] {
			path := one.field()
			lines = append(lines, "- "+path)
			causes = append(causes, metav1.StatusCause{
				Type:    metav1.CauseTypeFieldManagerConflict,
				Message: "conflict with " + name,
				Field:   path,
			})
		}
	}
	message := fmt.Sprintf("Apply failed with %d conflicts: %s", len(c), strings.Join(lines, "\n"))
	if len(c) == 1 {
		message = fmt.Sprintf("Apply failed with 1 conflict: %s: %s", causes[0].Message, causes[0].Field)
	}
	return apierrors.NewApplyConflict(causes, message)
}

// describe returns a manager as shown in messages.
func (id identity) describe() string {
	name := fmt.Sprintf("%q", id.manager)
	if id.subresource != "" {
		name += fmt.Sprintf(" with subresource %q", id.subresource)
	}
	if !id.apply {
		name += " using " + id.version
	}
	return name
}

// field returns the path as shown in messages.
func (c conflict) field() string {
	if c.path == nil {
		return "..."
	}
	var b strings.Builder
	for _, element := range c.path {
		pe := parsed(element)
		if c.fresh {
			// Numbers that have not been stored yet are still integers.
			if pe.Value != nil {
				v := whole(*pe.Value)
				pe.Value = &v
			}
			if pe.Key != nil {
				for i := range *pe.Key {
					(*pe.Key)[i].Value = whole((*pe.Key)[i].Value)
				}
			}
		}
		b.WriteString(pe.String())
	}
	return b.String()
}

// whole returns a number as in the object.
func whole(v value.Value) value.Value {
	if v.IsFloat() && v.AsFloat() == float64(int64(v.AsFloat())) {
		return value.NewValueInterface(int64(v.AsFloat()))
	}
	return v
}
