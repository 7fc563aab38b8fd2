package crd

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestReview(t *testing.T) {
	const approved = apiextensionsv1.KubeAPIApprovedAnnotation
	base := func(edit func(m *manifest)) *manifest {
		m := &manifest{}
		m.Spec.Group = "example.com"
		m.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Singular: "a", Kind: "A", ListKind: "AList"}
		if edit != nil {
			edit(m)
		}
		return m
	}
	annotated := func(value string) func(*manifest) {
		return func(m *manifest) {
			m.Spec.Group = "a.k8s.io"
			m.Metadata.Annotations = map[string]string{approved: value}
		}
	}
	const fine = "\nNamesAccepted | True | NoConflicts | no conflicts found\nEstablished | True | InitialNamesAccepted | the initial names have been accepted"
	const policy = "KubernetesAPIApprovalPolicyConformant | "
	for _, test := range []struct {
		name string
		edit func(m *manifest)
		want string
	}{
		{"nothing special", nil, strings.TrimPrefix(fine, "\n")},
		{"approved", annotated("https://example.com/1"), policy + "True | ApprovedAnnotation | approved in https://example.com/1" + fine},
		{"bypassed", annotated("unapproved, an experiment"), policy + `False | UnapprovedAnnotation | not approved: "unapproved, an experiment"` + fine},
		{"invalid", annotated("yes"), policy + `False | InvalidAnnotation | protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111` + fine},
		{"missing", annotated(""), policy + `False | MissingAnnotation | protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111` + fine},
		{"an invalid CA bundle", func(m *manifest) {
			m.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("no certificate")}},
			}
		}, "NamesAccepted | True | NoConflicts | no conflicts found\nEstablished | False | InvalidCABundle | The conversion webhook CABundle is invalid"},
	} {
		m := base(test.edit)
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if !review(m, newNameSet(), true, start) {
			t.Errorf("%s: review reports no change", test.name)
		}
		if got := conditions(m); got != test.want {
			t.Errorf("%s:\n%s\nwant:\n%s", test.name, got, test.want)
		}
		if review(m, newNameSet(), true, start.Add(time.Hour)) {
			t.Errorf("%s: the second review reports a change", test.name)
		}
	}
}

// TestTransition checks that the transition time of a condition changes with its status only.
func TestTransition(t *testing.T) {
	var conditions []apiextensionsv1.CustomResourceDefinitionCondition
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		status  apiextensionsv1.ConditionStatus
		reason  string
		changed bool
		hours   int // of the last transition
	}{
		{"True", "A", true, 0}, {"True", "A", false, 0}, {"True", "B", true, 0}, {"False", "B", true, 3}, {"True", "B", true, 4},
	} {
		c := apiextensionsv1.CustomResourceDefinitionCondition{Type: "T", Status: step.status, Reason: step.reason}
		if got := setCondition(&conditions, c, start); got != step.changed {
			t.Errorf("%v: changed %v", step, got)
		}
		want := time.Date(2026, 1, 1, step.hours, 0, 0, 0, time.UTC)
		if got := conditions[0].LastTransitionTime.Time; !got.Equal(want) {
			t.Errorf("%v: last transition %v, want %v", step, got, want)
		}
		start = start.Add(time.Hour)
	}
	if !removeCondition(&conditions, "T") || removeCondition(&conditions, "T") {
		t.Error("removing an absent condition reports a change")
	}
}
