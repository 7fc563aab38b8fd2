package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

func validateFlowSchema(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	spec, at := &s.Spec, field.NewPath("spec")
	all := validatePrecedence(s.Name, spec.MatchingPrecedence, at.Child("matchingPrecedence"))
	if m := spec.DistinguisherMethod; m != nil {
		supported := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
		if !slices.Contains(supported, m.Type) {
			all = append(all, field.NotSupported(at.Child("distinguisherMethod", "type"), rule.AsInternal(m), supported))
		}
	}
	level := at.Child("priorityLevelConfiguration", "name")
	if name := spec.PriorityLevelConfiguration.Name; name == "" {
		all = append(all, field.Required(level, "must reference a priority level"))
	} else {
		all = append(all, rule.Invalid(level, name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	for i := range spec.Rules {
		all = append(all, validateFlowRule(&spec.Rules[i], at.Child("rules").Index(i))...)
	}
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if fixed.Name == s.Name && !equality.Semantic.DeepEqual(spec, &fixed.Spec) {
			all = append(all, field.Invalid(at, rule.AsInternal(spec), fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	return append(all, validateFlowSchemaStatus(s, nil)...)
}

func validatePrecedence(name string, n int32, at *field.Path) (all field.ErrorList) {
	if n <= 0 {
		all = append(all, field.Invalid(at, n, "must be a positive value"))
	}
	if n > flowcontrolv1.FlowSchemaMaxMatchingPrecedence {
		all = append(all, field.Invalid(at, n, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	}
	if n == 1 && name != flowcontrolv1.FlowSchemaNameExempt {
		all = append(all, field.Invalid(at, n, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	return all
}

func validateFlowRule(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) (all field.ErrorList) {
	for i := range r.Subjects {
		all = append(all, validateFlowSubject(&r.Subjects[i], at.Child("subjects").Index(i))...)
	}
	if len(r.Subjects) == 0 {
		all = append(all, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	if len(r.ResourceRules)+len(r.NonResourceRules) == 0 {
		all = append(all, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		all = append(all, validateFlowResources(&r.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		all = append(all, validateFlowURLs(&r.NonResourceRules[i], at.Child("nonResourceRules").Index(i))...)
	}
	return all
}

// validateFlowSubject requires the field of the subject's kind, and no other.
func validateFlowSubject(s *flowcontrolv1.Subject, at *field.Path) (all field.ErrorList) {
	members := []struct {
		kind  flowcontrolv1.SubjectKind
		name  string
		set   bool
		check func(at *field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(at *field.Path) field.ErrorList {
			return validateFlowAccount(s.ServiceAccount, at)
		}},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(at *field.Path) field.ErrorList { return rule.RequireText(s.User.Name, at.Child("name")) }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(at *field.Path) field.ErrorList { return rule.RequireText(s.Group.Name, at.Child("name")) }},
	}
	all = rule.Supported(at.Child("kind"), s.Kind, flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	if len(all) > 0 {
		return all
	}
	var others field.ErrorList
	for _, m := range members {
		switch {
		case m.kind != s.Kind && m.set:
			others = append(others, field.Forbidden(at.Child(m.name), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", m.name, m.kind)))
		case m.kind == s.Kind && !m.set:
			all = append(all, field.Required(at.Child(m.name), fmt.Sprintf("%s is required when subject kind is '%s'", m.name, m.kind)))
		case m.kind == s.Kind:
			all = append(all, m.check(at.Child(m.name))...)
		}
	}
	return append(all, others...)
}

func validateFlowAccount(s *flowcontrolv1.ServiceAccountSubject, at *field.Path) (all field.ErrorList) {
	if s.Name == "" {
		all = append(all, field.Required(at.Child("name"), ""))
	} else if s.Name != flowcontrolv1.NameAll {
		all = append(all, rule.Invalid(at.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))...)
	}
	if s.Namespace == "" {
		return append(all, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	return append(all, rule.Invalid(at.Child("namespace"), s.Namespace, apivalidation.ValidateNamespaceName(s.Namespace, false))...)
}

// flowVerbs are the verbs of requests.
var flowVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateFlowVerbs(verbs []string, at *field.Path) field.ErrorList {
	isUnknown := func(verb string) bool { return !slices.Contains(flowVerbs, verb) }
	switch {
	case len(verbs) == 0:
		return field.ErrorList{field.Required(at, "verbs must contain at least one value")}
	case slices.Contains(verbs, "*"):
		return rule.ValidateStarAlone(verbs, "verbs", at)
	case slices.ContainsFunc(verbs, isUnknown):
		return field.ErrorList{field.NotSupported(at, verbs, flowVerbs)}
	}
	return nil
}

func validateFlowResources(r *flowcontrolv1.ResourcePolicyRule, at *field.Path) field.ErrorList {
	all := validateFlowVerbs(r.Verbs, at.Child("verbs"))
	if len(r.APIGroups) == 0 {
		all = append(all, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	all = append(all, rule.ValidateStarAlone(r.APIGroups, "api groups", at.Child("apiGroups"))...)
	if len(r.Resources) == 0 {
		all = append(all, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
	}
	all = append(all, rule.ValidateStarAlone(r.Resources, "resources", at.Child("resources"))...)
	namespaces := at.Child("namespaces")
	if len(r.Namespaces) == 0 && !r.ClusterScope {
		return append(all, field.Required(namespaces, "resource rules that are not cluster scoped must supply at least one namespace"))
	}
	if slices.Contains(r.Namespaces, "*") {
		return append(all, rule.ValidateStarAlone(r.Namespaces, "namespaces", namespaces)...)
	}
	for i, name := range r.Namespaces {
		for _, problem := range apivalidation.ValidateNamespaceName(name, false) {
			all = append(all, field.Invalid(namespaces.Index(i), name, "each member of this list must be '*' or a DNS-1123 label; "+problem))
		}
	}
	return all
}

func validateFlowURLs(r *flowcontrolv1.NonResourcePolicyRule, at *field.Path) field.ErrorList {
	all := validateFlowVerbs(r.Verbs, at.Child("verbs"))
	urls := at.Child("nonResourceURLs")
	if len(r.NonResourceURLs) == 0 {
		return append(all, field.Required(urls, "nonResourceURLs must contain at least one value"))
	}
	if slices.Contains(r.NonResourceURLs, "*") {
		return append(all, rule.ValidateStarAlone(r.NonResourceURLs, "non-resource URLs", urls)...)
	}
	for i, url := range r.NonResourceURLs {
		if problem := problemOfURL(url); problem != "" {
			all = append(all, field.Invalid(urls.Index(i), url, problem))
		}
	}
	return all
}

// problemOfURL requires a path, which may end with /*.
func problemOfURL(path string) string {
	switch stars := strings.Count(path, "*"); {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1, stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

func validateFlowSchemaStatus(s, _ *flowcontrolv1.FlowSchema) (all field.ErrorList) {
	seen := map[flowcontrolv1.FlowSchemaConditionType]bool{}
	for i, c := range s.Status.Conditions {
		all = append(all, validateConditionType(c.Type, seen, field.NewPath("status", "conditions").Index(i).Child("type"))...)
	}
	return all
}

// validateConditionType requires types of conditions that are not in seen, to which it adds them.
func validateConditionType[T ~string](of T, seen map[T]bool, at *field.Path) (all field.ErrorList) {
	if seen[of] {
		all = append(all, field.Duplicate(at, of))
	}
	seen[of] = true
	if of == "" {
		all = append(all, field.Required(at, ""))
	}
	return all
}
