package crd

import (
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// A nameSet has the names in use in a group: those of resources, and those of kinds.
type nameSet struct{ resources, kinds map[string]bool }

func newNameSet() nameSet { return nameSet{map[string]bool{}, map[string]bool{}} }

func (s nameSet) add(n *apiextensionsv1.CustomResourceDefinitionNames) {
	s.resources[n.Plural], s.resources[n.Singular] = true, true
	for _, short := range n.ShortNames {
		s.resources[short] = true
	}
	s.kinds[n.Kind], s.kinds[n.ListKind] = true, true
}

// accept compares the names in a definition's spec with those granted before and those taken by
// others. It returns the names granted now, and the condition NamesAccepted. A refused name leaves
// the granted one in place, and does not affect the other names.
func accept(asked, granted apiextensionsv1.CustomResourceDefinitionNames, taken nameSet) (apiextensionsv1.CustomResourceDefinitionNames, apiextensionsv1.CustomResourceDefinitionCondition) {
	verdict := apiextensionsv1.CustomResourceDefinitionCondition{
		Type:    apiextensionsv1.NamesAccepted,
		Status:  apiextensionsv1.ConditionTrue,
		Reason:  "NoConflicts",
		Message: "no conflicts found",
	}
	refuse := func(reason string, err error) {
		verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
	}
	free := func(name, granted string, taken map[string]bool) error {
		if name != granted && taken[name] {
			return fmt.Errorf("%q is already in use", name)
		}
		return nil
	}
	grant := func(name string, granted *string, taken map[string]bool, reason string) {
		if err := free(name, *granted, taken); err != nil {
			refuse(reason, err)
		} else {
			*granted = name
		}
	}
	names := granted
	grant(asked.Plural, &names.Plural, taken.resources, "PluralConflict")
	grant(asked.Singular, &names.Singular, taken.resources, "SingularConflict")
	var conflicts []error
	for _, short := range asked.ShortNames {
		if !slices.Contains(granted.ShortNames, short) {
			if err := free(short, "", taken.resources); err != nil {
				conflicts = append(conflicts, err)
			}
		}
	}
	if err := utilerrors.NewAggregate(conflicts); err != nil {
		refuse("ShortNamesConflict", err)
	} else {
		names.ShortNames = asked.ShortNames
	}
	grant(asked.Kind, &names.Kind, taken.kinds, "KindConflict")
	grant(asked.ListKind, &names.ListKind, taken.kinds, "ListKindConflict")
	names.Categories = asked.Categories
	return names, verdict
}

func sameNames(a, b *apiextensionsv1.CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

func findCondition(conditions []apiextensionsv1.CustomResourceDefinitionCondition, kind apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// setCondition adds or replaces a condition, and reports whether this changes anything. The time of
// transition changes with the status only.
func setCondition(conditions *[]apiextensionsv1.CustomResourceDefinitionCondition, c apiextensionsv1.CustomResourceDefinitionCondition, now time.Time) bool {
	c.LastTransitionTime = metav1.NewTime(now)
	old := findCondition(*conditions, c.Type)
	if old == nil {
		*conditions = append(*conditions, c)
		return true
	}
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return false
	}
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.ObservedGeneration = old.ObservedGeneration
	*old = c
	return true
}

func removeCondition(conditions *[]apiextensionsv1.CustomResourceDefinitionCondition, kind apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	before := len(*conditions)
	*conditions = slices.DeleteFunc(*conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
	return len(*conditions) != before
}
