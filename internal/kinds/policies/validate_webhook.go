package policies

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/webhook/clientconfig"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateValidatingWebhookConfiguration(ctx context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	all := validateNotStatic(c.Name, old == nil)
	var before []admissionv1.MutatingWebhook
	if old != nil {
		before = asMutating(old.Webhooks)
	}
	return append(all, validateWebhooks(ctx, asMutating(c.Webhooks), before, old != nil)...)
}

func validateMutatingWebhookConfiguration(ctx context.Context, c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	all := validateNotStatic(c.Name, old == nil)
	var before []admissionv1.MutatingWebhook
	if old != nil {
		before = old.Webhooks
	}
	return append(all, validateWebhooks(ctx, c.Webhooks, before, old != nil)...)
}

// asMutating converts validating webhooks to mutating ones, which have one more field, for
// validation.
func asMutating(hooks []admissionv1.ValidatingWebhook) []admissionv1.MutatingWebhook {
	var same []admissionv1.MutatingWebhook
	for _, h := range hooks {
		same = append(same, admissionv1.MutatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
		})
	}
	return same
}

// webhookRules are the rules for webhooks that do not apply to every object: an update of an object
// that breaks one is not checked for it.
type webhookRules struct {
	sideEffects  []admissionv1.SideEffectClass
	knownReviews bool
	uniqueNames  bool
	selectors    metav1validation.LabelSelectorValidationOptions
	// conditions are compiled if any has changed; those in stored may use features that new ones
	// may not.
	conditions bool
	stored     map[string]bool
	budget     *celwork.Budget // of all webhooks
}

func rulesFor(hooks, before []admissionv1.MutatingWebhook, update bool) webhookRules {
	none := []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	r := webhookRules{sideEffects: none, knownReviews: true, uniqueNames: true, conditions: true, stored: map[string]bool{}}
	if !update {
		return r
	}
	r.conditions = len(hooks) != len(before)
	names := map[string]bool{}
	for i, h := range before {
		if h.SideEffects == nil || !slices.Contains(none, *h.SideEffects) {
			r.sideEffects = []admissionv1.SideEffectClass{
				admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun, admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown,
			}
		}
		if len(h.AdmissionReviewVersions) > 0 && !slices.ContainsFunc(h.AdmissionReviewVersions, isKnownReview) {
			r.knownReviews = false
		}
		if names[h.Name] {
			r.uniqueNames = false
		}
		names[h.Name] = true
		for _, s := range []*metav1.LabelSelector{h.NamespaceSelector, h.ObjectSelector} {
			if s != nil && len(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
				r.selectors.AllowInvalidLabelValueInSelector = true
			}
		}
		for _, c := range h.MatchConditions {
			r.stored[c.Expression] = true
		}
		if len(hooks) == len(before) && !reflect.DeepEqual(h.MatchConditions, hooks[i].MatchConditions) {
			r.conditions = true
		}
	}
	return r
}

func validateWebhooks(ctx context.Context, hooks, before []admissionv1.MutatingWebhook, update bool) (all field.ErrorList) {
	rules := rulesFor(hooks, before, update)
	rules.budget = celwork.NewBudget(ctx)
	names := map[string]bool{}
	for i := range hooks {
		hook, at := &hooks[i], field.NewPath("webhooks").Index(i)
		all = append(all, validateWebhook(hook, rules, at)...)
		all = append(all, validateReviewVersions(hook.AdmissionReviewVersions, rules.knownReviews, at.Child("admissionReviewVersions"))...)
		if rules.uniqueNames && names[hook.Name] {
			all = append(all, field.Duplicate(at.Child("name"), hook.Name))
		}
		names[hook.Name] = hook.Name != ""
	}
	return all
}

func validateWebhook(hook *admissionv1.MutatingWebhook, rules webhookRules, at *field.Path) field.ErrorList {
	all := validation.IsFullyQualifiedName(at.Child("name"), hook.Name)
	for i := range hook.Rules {
		all = append(all, validateOperationRule(&hook.Rules[i], at.Child("rules").Index(i))...)
	}
	all = append(all, rule.Supported(at.Child("failurePolicy"), *hook.FailurePolicy, admissionv1.Fail, admissionv1.Ignore)...)
	all = append(all, rule.Supported(at.Child("matchPolicy"), *hook.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)...)
	if hook.SideEffects == nil {
		var names []string
		for _, class := range rules.sideEffects {
			names = append(names, string(class))
		}
		all = append(all, field.Required(at.Child("sideEffects"), "must specify one of "+strings.Join(names, ", ")))
	} else {
		all = append(all, rule.Supported(at.Child("sideEffects"), *hook.SideEffects, rules.sideEffects...)...)
	}
	if s := *hook.TimeoutSeconds; s < 1 || s > 30 {
		all = append(all, field.Invalid(at.Child("timeoutSeconds"), s, "the timeout value must be between 1 and 30 seconds"))
	}
	all = append(all, metav1validation.ValidateLabelSelector(hook.NamespaceSelector, rules.selectors, at.Child("namespaceSelector"))...)
	all = append(all, metav1validation.ValidateLabelSelector(hook.ObjectSelector, rules.selectors, at.Child("objectSelector"))...)
	if p := hook.ReinvocationPolicy; p != nil {
		all = append(all, rule.Supported(at.Child("reinvocationPolicy"), *p, admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	}
	all = append(all, validateWebhookClient(&hook.ClientConfig, at.Child("clientConfig"))...)
	if rules.conditions {
		all = append(all, validateMatchConditions(hook.MatchConditions, expressions{budget: rules.budget, stored: rules.stored}, at.Child("matchConditions"))...)
	}
	return all
}

func validateWebhookClient(c *admissionv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return clientconfig.ValidateURL(*c.URL, at.Child("url"))
	}
	return clientconfig.ValidateService(c.Service.Name, c.Service.Namespace, c.Service.Path, *c.Service.Port, at.Child("service"))
}

// reviewVersions are the versions of AdmissionReview that Kubernetes sends.
var reviewVersions = [...]string{"v1", "v1beta1"}

func isKnownReview(version string) bool { return slices.Contains(reviewVersions[:], version) }

func validateReviewVersions(versions []string, known bool, at *field.Path) (all field.ErrorList) {
	names := strings.Join(reviewVersions[:], ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+names)}
	}
	repeats := rule.Repeats[string]()
	for i, v := range versions {
		if repeats(v) {
			all = append(all, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		all = append(all, rule.Invalid(at.Index(i), v, validation.IsDNS1035Label(v))...)
	}
	if known && !slices.ContainsFunc(versions, isKnownReview) {
		all = append(all, field.Invalid(at, versions, fmt.Sprintf("must include at least one of %v", names)))
	}
	return all
}
