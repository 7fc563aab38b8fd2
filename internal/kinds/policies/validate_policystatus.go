package policies

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

func validateValidatingAdmissionPolicyStatus(p, _ *admissionv1.ValidatingAdmissionPolicy) (all field.ErrorList) {
	at := field.NewPath("status")
	if checked := p.Status.TypeChecking; checked != nil {
		for i, w := range checked.ExpressionWarnings {
			at := at.Child("typeChecking", "expressionWarnings").Index(i)
			all = append(all, rule.RequireText(w.Warning, at.Child("warning"))...)
			all = append(all, validateExpressionRef(strings.TrimSpace(w.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(all, metav1validation.ValidateConditions(p.Status.Conditions, at.Child("conditions"))...)
}

func validateExpressionRef(ref string, at *field.Path) field.ErrorList {
	if ref == "" {
		return rule.RequireText(ref, at)
	}
	if err := jsonpath.New("spec").Parse(fmt.Sprintf("{%s}", ref)); err != nil {
		return field.ErrorList{field.Invalid(at, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
