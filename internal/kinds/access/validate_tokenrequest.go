package access

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTokenRequest returns the errors of a token request with its defaults.
func validateTokenRequest(request *authenticationv1.TokenRequest) field.ErrorList {
	const shortest, longest = 10 * 60, 1 << 32 // seconds
	var all field.ErrorList
	path := field.NewPath("spec")
	seconds := *request.Spec.ExpirationSeconds
	if seconds < shortest {
		all = append(all, field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > longest {
		all = append(all, field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	attestations := request.Spec.Attestations
	path = path.Child("attestations")
	if !referencesWebhooks(request.Spec.BoundObjectRef) {
		if len(attestations) > 0 { // other attestations are ignored
			return field.ErrorList{field.Invalid(path, attestations, "attestations may only be specified with a webhook bound object reference")}
		}
		return all
	}
	if len(request.Spec.Audiences) != 1 {
		all = append(all, field.Invalid(field.NewPath("spec", "audiences"), request.Spec.Audiences, "must be length 1 when bound to a webhook config"))
	}
	if len(attestations) != 1 {
		return append(all, field.Invalid(path, attestations, "webhook bound requests require exactly one admissionReviewAPIGroups attestation"))
	}
	for key, values := range attestations {
		all = append(all, attestation(key, values, path.Key(key))...)
	}
	return all
}

// attestation returns the errors of the only known attestation, the API groups for which a webhook
// is called.
func attestation(key string, values []string, path *field.Path) field.ErrorList {
	switch {
	case key != string(authenticationv1.AttestationAdmissionReviewAPIGroups):
		return field.ErrorList{field.NotSupported(path, key, []string{string(authenticationv1.AttestationAdmissionReviewAPIGroups)})}
	case len(values) != 1:
		return field.ErrorList{field.Invalid(path, values, "must specify a single value")}
	case values[0] == "":
		return field.ErrorList{field.Invalid(path.Index(0), "", "may not be an empty string")}
	case values[0] == "*":
		return nil
	}
	var all field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(values[0]) {
		all = append(all, field.Invalid(path.Index(0), values[0], "must specify a valid API Group: "+problem))
	}
	return all
}

// referencesWebhooks reports whether a token is to be bound to a webhook configuration.
func referencesWebhooks(ref *authenticationv1.BoundObjectReference) bool {
	return ref != nil && ref.APIVersion == admissionregistrationv1.SchemeGroupVersion.String() &&
		(ref.Kind == "ValidatingWebhookConfiguration" || ref.Kind == "MutatingWebhookConfiguration")
}
