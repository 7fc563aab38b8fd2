package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Limits of the policies of a job.
const (
	maxPolicyRules      = 20
	maxPolicyExitCodes  = 255
	maxPolicyConditions = 20
	maxSucceededIndexes = 64 * 1024 // bytes
)

// validateJobPolicies returns the errors of the policies for failed and successful pods.
func validateJobPolicies(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if spec.PodFailurePolicy != nil {
		all = append(all, validateFailurePolicy(spec, path.Child("podFailurePolicy", "rules"))...)
	}
	if spec.SuccessPolicy != nil {
		if ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.IndexedCompletion {
			all = append(all, field.Invalid(path.Child("successPolicy"), rule.AsInternal(spec.SuccessPolicy), "requires indexed completion mode"))
		} else {
			all = append(all, validateSuccessPolicy(spec, path.Child("successPolicy", "rules"))...)
		}
	}
	policies := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	if spec.PodFailurePolicy != nil {
		policies = policies[:1]
	}
	if policy := spec.PodReplacementPolicy; policy != nil && !slices.Contains(policies, *policy) {
		all = append(all, field.NotSupported(path.Child("podReplacementPolicy"), *policy, policies))
	}
	return all
}

func validateFailurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	rules := spec.PodFailurePolicy.Rules
	if len(rules) > maxPolicyRules {
		all = append(all, field.TooMany(path, len(rules), maxPolicyRules))
	}
	for i := range rules {
		all = append(all, validateFailureRule(spec, &rules[i], path.Index(i))...)
	}
	return all
}

func validateFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	var all field.ErrorList
	actions := []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	}
	switch at := path.Child("action"); {
	case rule.Action == "":
		all = append(all, field.Required(at, fmt.Sprintf("valid values: %q", actions)))
	case !slices.Contains(actions, rule.Action):
		all = append(all, field.NotSupported(at, rule.Action, actions))
	case rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil:
		all = append(all, field.Invalid(at, rule.Action, "requires the backoffLimitPerIndex to be set"))
	}
	if rule.OnExitCodes != nil {
		all = append(all, validateExitCodes(spec, rule.OnExitCodes, path.Child("onExitCodes"))...)
	}
	all = append(all, validatePodConditions(rule.OnPodConditions, path.Child("onPodConditions"))...)
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		all = append(all, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		all = append(all, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return all
}

func validateExitCodes(spec *batchv1.JobSpec, on *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path) field.ErrorList {
	operators := []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	all := oneOfOrList(path.Child("operator"), on.Operator, operators)
	if name := on.ContainerName; name != nil && !hasContainer(&spec.Template.Spec, *name) {
		all = append(all, field.Invalid(path.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template"))
	}
	path = path.Child("values")
	switch n := len(on.Values); {
	case n == 0:
		all = append(all, field.Invalid(path, on.Values, "at least one value is required"))
	case n > maxPolicyExitCodes:
		all = append(all, field.TooMany(path, n, maxPolicyExitCodes))
	}
	seen := make(map[int32]bool, len(on.Values))
	for i, code := range on.Values {
		if code == 0 && on.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			all = append(all, field.Invalid(path.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen[code] {
			all = append(all, field.Duplicate(path.Index(i), code))
		}
		seen[code] = true
	}
	if !slices.IsSorted(on.Values) {
		all = append(all, field.Invalid(path, on.Values, "must be ordered"))
	}
	return all
}

func validatePodConditions(on []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(on) > maxPolicyConditions {
		all = append(all, field.TooMany(path, len(on), maxPolicyConditions))
	}
	for i, pattern := range on {
		all = append(all, rule.ValidateQualifiedName(path.Index(i).Child("type"), string(pattern.Type))...)
		all = append(all, oneOfOrList(path.Index(i).Child("status"), pattern.Status,
			[]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown})...)
	}
	return all
}

// oneOfOrList is rule.OneOf, but lists the supported values for an empty value too.
func oneOfOrList[V ~string](path *field.Path, value V, supported []V) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", supported))}
	}
	return rule.OneOf(path, value, supported...)
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named)
}

func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	rules := spec.SuccessPolicy.Rules
	if len(rules) == 0 {
		all = append(all, field.Required(path, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > maxPolicyRules {
		all = append(all, field.TooMany(path, len(rules), maxPolicyRules))
	}
	if spec.Completions == nil { // rejected elsewhere
		return all
	}
	for i := range rules {
		all = append(all, validateSuccessRule(&rules[i], *spec.Completions, path.Index(i))...)
	}
	return all
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		all = append(all, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	indexes := int32(0)
	if text := rule.SucceededIndexes; text != nil {
		at := path.Child("succeededIndexes")
		if len(*text) > maxSucceededIndexes {
			all = append(all, field.TooLong(at, "", maxSucceededIndexes))
		}
		set, err := parseIndexes(*text, completions)
		if err != nil {
			all = append(all, field.Invalid(at, *text, "error parsing succeededIndexes: "+err.Error()))
		}
		indexes = set.count()
	}
	if count := rule.SucceededCount; count != nil {
		at := path.Child("succeededCount")
		all = append(all, apps.ValidateCount(count, at)...)
		if *count > completions {
			all = append(all, field.Invalid(at, *count, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && *count > indexes {
			all = append(all, field.Invalid(at, *count, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", indexes)))
		}
	}
	return all
}

// indexes are sorted ranges of completion indexes with inclusive ends.
type indexes [][2]int32

// parseIndexes parses text such as 1,3-5,7.
func parseIndexes(text string, completions int32) (indexes, error) {
	if text == "" {
		return nil, nil
	}
	var all indexes
	for part := range strings.SplitSeq(text, ",") {
		ends := strings.Split(part, "-")
		if len(ends) > 2 {
			return nil, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", part)
		}
		first, err := parseIndex(ends[0], completions)
		if err != nil {
			return nil, err
		}
		last := first
		if len(ends) == 2 {
			if last, err = parseIndex(ends[1], completions); err != nil {
				return nil, err
			}
			if first >= last {
				return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
			}
		}
		if n := len(all); n > 0 && all[n-1][1] >= first {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", all[n-1][1], first)
		}
		all = append(all, [2]int32{first, last})
	}
	return all, nil
}

func parseIndex(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(n), nil
}

func (s indexes) count() int32 {
	n := int32(0)
	for _, r := range s {
		n += r[1] - r[0] + 1
	}
	return n
}

// overlap returns an index that is in both.
func (s indexes) overlap(other indexes) (int32, bool) {
	for len(s) > 0 && len(other) > 0 {
		first, last := max(s[0][0], other[0][0]), min(s[0][1], other[0][1])
		if first <= last {
			return first, true
		}
		if s[0][0] <= other[0][0] {
			s = s[1:]
		} else {
			other = other[1:]
		}
	}
	return 0, false
}
