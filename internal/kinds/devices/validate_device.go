package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// This file has the rules that classes, claims and slices of devices share.

func validateDeviceDriver(name string, at *field.Path) (all field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(name) > resourcev1.DriverNameMaxLength {
		all = append(all, field.TooLong(at, "", resourcev1.DriverNameMaxLength))
	}
	return append(all, rule.Invalid(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// validateDevicePool requires DNS subdomains separated by slashes.
func validateDevicePool(name string, at *field.Path) (all field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		all = append(all, field.TooLong(at, "", validation.DNS1123SubdomainMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		all = append(all, rule.Invalid(at, part, validation.IsDNS1123Subdomain(part))...)
	}
	return all
}

// validateAttributeName requires an identifier with an optional domain.
func validateAttributeName(name string, at *field.Path) (all field.ErrorList) {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case !qualified:
		return validateAttributeID(name, at)
	case strings.Contains(id, "/"): // Kubernetes does not look at such names
		return nil
	case domain == "":
		all = append(all, field.Invalid(at, "", "the domain must not be empty"))
	default:
		all = append(all, validateDeviceDriver(domain, at)...)
	}
	if id == "" {
		return append(all, field.Invalid(at, "", "the name must not be empty"))
	}
	return append(all, validateAttributeID(id, at)...)
}

func validateAttributeID(id string, at *field.Path) (all field.ErrorList) {
	if len(id) > resourcev1.DeviceMaxIDLength {
		all = append(all, field.TooLong(at, "", resourcev1.DeviceMaxIDLength))
	}
	return append(all, rule.Invalid(at, id, content.IsCIdentifier(id))...)
}

// validateEach returns the errors of a list's elements. Lists above the limit get one error, and
// their elements are not checked.
func validateEach[T any](list []T, most int, at *field.Path, check func(t *T, at *field.Path) field.ErrorList) (all field.ErrorList) {
	if len(list) > most {
		return field.ErrorList{field.TooMany(at, len(list), most)}
	}
	for i := range list {
		all = append(all, check(&list[i], at.Index(i))...)
	}
	return all
}

// validateUnique rejects duplicates.
func validateUnique[T any, K comparable](list []T, at *field.Path, key func(t *T) K) (all field.ErrorList) {
	seen := map[K]bool{}
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			all = append(all, field.Duplicate(at.Index(i), list[i]))
		}
		seen[k] = true
	}
	return all
}

func itself[T any](t *T) T { return *t }

// byMarker returns the errors of a declarative rule of Kubernetes.
func byMarker[T any](check func(context.Context, operation.Operation, *field.Path, *T, *T) field.ErrorList, at *field.Path, value T) field.ErrorList {
	return check(context.Background(), operation.Operation{}, at, &value, nil)
}

// validateMarkedDriver is validateDeviceDriver with the messages of declarative rules.
func validateMarkedDriver(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	all := byMarker(validate.LongNameCaseless, at, name)
	if len(name) > resourcev1.DriverNameMaxLength {
		all = append(all, field.TooLong(at, "", resourcev1.DriverNameMaxLength))
	}
	return all
}

// validateSelectors compiles CEL expressions that select devices, unless they have not changed.
func validateSelectors(selectors []resourcev1.DeviceSelector, stored bool, b *celwork.Budget, at *field.Path) field.ErrorList {
	return validateEach(selectors, resourcev1.DeviceSelectorsMaxSize, at, func(s *resourcev1.DeviceSelector, at *field.Path) field.ErrorList {
		if s.CEL == nil {
			return field.ErrorList{field.Required(at.Child("cel"), "")}
		}
		if stored {
			return nil
		}
		return validateSelection(s.CEL.Expression, b, at.Child("cel", "expression"))
	})
}

func validateSelection(text string, b *celwork.Budget, at *field.Path) field.ErrorList {
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	compiled, err := b.Spend(text)
	if err != nil {
		return field.ErrorList{field.Forbidden(at, "too complex, "+err.Error())}
	}
	kind := environment.NewExpressions
	compile := func(text string) cel.CompilationResult {
		return cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(text, cel.Options{EnvType: &kind})
	}
	result := compile(compiled)
	if result.Error == nil && result.MaxCost > resourcev1.CELSelectorExpressionMaxCost {
		return field.ErrorList{field.Forbidden(at, "too complex, exceeds cost limit")}
	}
	if result.Error != nil && b.Failed(text, compiled, result.Error.Detail) {
		result = compile(text)
	}
	return policies.CELErrors(result.Error, text, at)
}

func validateDeviceConfiguration(c *resourcev1.DeviceConfiguration, stored bool, at *field.Path) field.ErrorList {
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at.Child("opaque"), "")}
	}
	at = at.Child("opaque")
	all := validateJSONObject(c.Opaque.Parameters, stored, resourcev1.OpaqueParametersMaxLength, at.Child("parameters"))
	return append(all, validateMarkedDriver(c.Opaque.Driver, at.Child("driver"))...)
}

// validateJSONObject returns the errors of parameters that only a driver decodes.
func validateJSONObject(data runtime.RawExtension, stored bool, longest int, at *field.Path) field.ErrorList {
	var value any
	err := json.Unmarshal(data.Raw, &value)
	_, ok := value.(map[string]any)
	switch {
	case len(data.Raw) == 0:
		return field.ErrorList{field.Required(at, "")}
	case !stored && len(data.Raw) > longest:
		return field.ErrorList{field.TooLong(at, "", longest)}
	case err != nil:
		return field.ErrorList{field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	case value == nil:
		return field.ErrorList{field.Required(at, "")}
	case !ok:
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}
