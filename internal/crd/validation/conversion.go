package validation

import (
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/webhook/clientconfig"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// reviews are the versions of ConversionReview.
var reviews = []string{"v1", "v1beta1"}

func (v *validator) conversion(c *apiextensions.CustomResourceConversion, at *field.Path) {
	if c == nil {
		return
	}
	v.oneOf(at.Child("strategy"), string(c.Strategy), string(apiextensions.NoneConverter), string(apiextensions.WebhookConverter))
	if c.Strategy != apiextensions.WebhookConverter {
		const text = "should not be set when strategy is not set to Webhook"
		if c.WebhookClientConfig != nil {
			v.add(field.Forbidden(at.Child("webhookClientConfig"), text))
		}
		if len(c.ConversionReviewVersions) > 0 {
			v.add(field.Forbidden(at.Child("conversionReviewVersions"), text))
		}
		return
	}
	if c.WebhookClientConfig == nil {
		v.add(field.Required(at.Child("webhookClientConfig"), "required when strategy is set to Webhook"))
	} else {
		v.webhook(c.WebhookClientConfig, at.Child("webhookClientConfig"))
	}
	v.reviewVersions(c.ConversionReviewVersions, at.Child("conversionReviewVersions"))
}

func (v *validator) webhook(c *apiextensions.WebhookClientConfig, at *field.Path) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		v.add(field.Required(at, "exactly one of url or service is required"))
	case c.URL != nil:
		v.add(clientconfig.ValidateURL(*c.URL, at.Child("url"))...)
	default:
		// Kubernetes passes name and namespace in the wrong order, so that an absent one is reported
		// at the other's field.
		v.add(clientconfig.ValidateService(c.Service.Name, c.Service.Namespace, c.Service.Path, c.Service.Port, at.Child("service"))...)
	}
	if len(c.CABundle) > 0 && !v.leniency.invalidBundles {
		v.add(clientconfig.ValidateCABundle(c.CABundle, at.Child("caBundle"))...)
	}
}

func (v *validator) reviewVersions(versions []string, at *field.Path) {
	if len(versions) == 0 {
		v.add(field.Required(at, ""))
		return
	}
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			v.add(field.Invalid(at.Index(i), version, "duplicate version"))
			continue
		}
		for _, wrong := range utilvalidation.IsDNS1035Label(version) {
			v.add(field.Invalid(at.Index(i), version, wrong))
		}
	}
	if !v.leniency.unknownReviews && !slices.ContainsFunc(versions, isReview) {
		v.add(field.Invalid(at, versions, "must include at least one of "+strings.Join(reviews, ", ")))
	}
}

func isReview(version string) bool { return slices.Contains(reviews, version) }
