package validation

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// TestOldProblemsMayStay updates objects that were stored when less was asked of
// them: what is wrong since then is not held against who changes something else.
func TestOldProblemsMayStay(t *testing.T) {
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
		if errs := MutatingWebhookConfiguration(bad, nil); len(errs) == 0 {
			t.Errorf("%s: accepted", c.name)
		}
		if errs := MutatingWebhookConfiguration(bad, &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{good}}); len(errs) == 0 {
			t.Errorf("%s: accepted where it was not before", c.name)
		}
		if errs := MutatingWebhookConfiguration(bad, bad); len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

func TestProblemsOfNames(t *testing.T) {
	at := field.NewPath("x")
	for _, c := range []struct {
		check func(string, *field.Path) field.ErrorList
		name  string
		want  string // part of the error, "" if there is none
	}{
		{validateSignerName, "kubernetes.io/kubelet-serving", ""},
		{validateSignerName, "example.com/ns.name", ""},
		{validateSignerName, "", "Required"},
		{validateSignerName, strings.Repeat("a", 254) + ".b/c", "may not be more than 253"},
		{validateDevicePool, "node.example.com/pool", ""},
		{validateDevicePool, "a//b", "RFC 1123 subdomain"},
		{validateAttributeName, "a_b", ""},
		{validateAttributeName, "x.y/a_b", ""},
		{validateAttributeName, "x.y/", "the name must not be empty"},
		{validateAttributeName, strings.Repeat("a", 33), "may not be more than 32"},
		{validateDeviceDriver, "GPU.example.com", ""},
	} {
		errs := c.check(c.name, at)
		if (c.want == "") != (len(errs) == 0) || len(errs) > 0 && !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.name, errs, c.want)
		}
	}
}

// TestLevelNeedsShares takes a level through the limits of its shares.
func TestLevelNeedsShares(t *testing.T) {
	for _, c := range []struct {
		lends int32
		ok    bool
	}{{-1, false}, {0, true}, {100, true}, {101, false}} {
		level := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To[int32](1), LendablePercent: &c.lends,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}}
		if errs := PriorityLevelConfiguration(level, nil); (len(errs) == 0) != c.ok {
			t.Errorf("%d: %v", c.lends, errs)
		}
	}
}

// TestSliceTakesFewerDevicesWithTaints counts the devices of slices.
func TestSliceTakesFewerDevicesWithTaints(t *testing.T) {
	spec := resourcev1.ResourceSliceSpec{Devices: make([]resourcev1.Device, 3)}
	if n := mostDevices(&spec); n != 128 {
		t.Errorf("%d without taints", n)
	}
	spec.Devices[2].Taints = make([]resourcev1.DeviceTaint, 1)
	if n := mostDevices(&spec); n != 64 {
		t.Errorf("%d with taints", n)
	}
}
