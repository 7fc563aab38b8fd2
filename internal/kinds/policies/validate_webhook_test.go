package policies

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// TestUpdatesTolerateOldErrors checks that updates tolerate errors of the stored object which were
// valid before a rule was added.
func TestUpdatesTolerateOldErrors(t *testing.T) {
	hook := func(name string, side admissionv1.SideEffectClass, versions ...string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://a")}, SideEffects: &side, AdmissionReviewVersions: versions,
			FailurePolicy: ptr.To(admissionv1.Fail), MatchPolicy: ptr.To(admissionv1.Exact), TimeoutSeconds: ptr.To[int32](1),
		}
	}
	good := hook("a.b.c", admissionv1.SideEffectClassNone, "v1")
	for _, c := range []struct {
		name string
		bad  []admissionv1.MutatingWebhook
	}{
		{"side effects", []admissionv1.MutatingWebhook{hook("a.b.c", admissionv1.SideEffectClassSome, "v1")}},
		{"review versions", []admissionv1.MutatingWebhook{hook("a.b.c", admissionv1.SideEffectClassNone, "v2")}},
		{"names", []admissionv1.MutatingWebhook{good, good}},
	} {
		bad := &admissionv1.MutatingWebhookConfiguration{Webhooks: c.bad}
		if errs := validateMutatingWebhookConfiguration(t.Context(), bad, nil); len(errs) == 0 {
			t.Errorf("%s: accepted", c.name)
		}
		if errs := validateMutatingWebhookConfiguration(t.Context(), bad, &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{good}}); len(errs) == 0 {
			t.Errorf("%s: accepted where it was not before", c.name)
		}
		if errs := validateMutatingWebhookConfiguration(t.Context(), bad, bad); len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}
