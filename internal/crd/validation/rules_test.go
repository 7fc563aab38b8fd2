package validation

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// withRule returns a definition that is valid if its rule is.
func withRule(rule string) *apiextensions.CustomResourceDefinition {
	return &apiextensions.CustomResourceDefinition{
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensions.NamespaceScoped, PreserveUnknownFields: new(false), Version: "v1",
			Names:    apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
			Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
				Type: "object", XValidations: apiextensions.ValidationRules{{Rule: rule, Message: "m"}},
			}},
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
}

// An ending is a context that ends after some calls of Err.
type ending struct {
	context.Context
	calls int
}

func (e *ending) Err() error {
	if e.calls--; e.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestStopsWithItsRequest validates a schema with 1,000 invalid fields, each with a rule, for a
// request that ends.
func TestStopsWithItsRequest(t *testing.T) {
	obj := withRule("true")
	fields := map[string]apiextensions.JSONSchemaProps{}
	for i := range 1000 {
		fields[fmt.Sprint("f", i)] = apiextensions.JSONSchemaProps{Type: "string", XValidations: apiextensions.ValidationRules{{Rule: "self.none"}}}
	}
	obj.Spec.Validation.OpenAPIV3Schema.Properties = fields
	if errs := Create(t.Context(), obj); len(errs) != 1000 {
		t.Fatalf("%d errors, want 1000", len(errs))
	}
	if errs := Create(&ending{t.Context(), 50}, obj); len(errs) > 50 {
		t.Errorf("%d errors of a request that has ended after 50 steps", len(errs))
	}
}

// TestErrorsOfLongRules checks that errors at the end of a long line do not take gigabytes, and
// that short ones show their line.
func TestErrorsOfLongRules(t *testing.T) {
	errorsOf := func(rule string) (errs field.ErrorList, allocated uint64) {
		obj := withRule(rule)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		errs = Create(t.Context(), obj)
		runtime.ReadMemStats(&after)
		return errs, after.TotalAlloc - before.TotalAlloc
	}
	if errs, _ := errorsOf("true"); len(errs) > 0 {
		t.Fatal(errs)
	}
	long := "true" + strings.Repeat(" && true", 1000) + strings.Repeat(" && a.b", 110)
	for name, rule := range map[string]string{"one line": long, "text": `"""` + strings.Repeat("x", 8000) + `""" == a` + strings.Repeat(" && a.b", 110)} {
		errs, allocated := errorsOf(rule)
		if len(errs) != 1 || errs[0].Field != "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule" {
			t.Errorf("%s: %.300v", name, errs)
		}
		if allocated > 100<<20 {
			t.Errorf("%s: %d MB of allocations", name, allocated>>20)
		}
	}
	errs, _ := errorsOf("self.absent == 1")
	if len(errs) != 1 || !strings.Contains(errs[0].Detail, "| self.absent == 1\n | ....^") {
		t.Errorf("a short rule: %v", errs)
	}
	// A stored rule may be as it is.
	text := `"""` + strings.Repeat("x", 8000) + `""" == ''`
	if errs := Create(t.Context(), withRule(text)); len(errs) != 1 || !strings.Contains(errs[0].Detail, "triple-quoted") {
		t.Errorf("triple quotes in a long line: %.300v", errs)
	}
	old := withRule(text)
	if errs := Update(t.Context(), withRule(text), old); len(errs) > 0 {
		t.Errorf("an update of a stored rule: %.300v", errs)
	}
}
