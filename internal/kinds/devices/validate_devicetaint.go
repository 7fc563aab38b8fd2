package devices

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDeviceTaintRule(r, old *resourcev1.DeviceTaintRule) (all field.ErrorList) {
	at := field.NewPath("spec")
	if s := r.Spec.DeviceSelector; s != nil {
		at := at.Child("deviceSelector")
		if s.Driver != nil {
			all = append(all, validateDeviceDriver(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			all = append(all, validateDevicePool(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			all = append(all, rule.ValidateLabel(at.Child("device"), *s.Device)...)
		}
	}
	var before *resourcev1.DeviceTaint
	if old != nil {
		before = &old.Spec.Taint
	}
	return append(all, validateDeviceTaint(&r.Spec.Taint, before, at.Child("taint"))...)
}

func validateDeviceTaintRuleStatus(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	at := field.NewPath("status", "conditions")
	all := metav1validation.ValidateConditions(r.Status.Conditions, at)
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		all = append(all, field.TooMany(at, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return all
}

var deviceTaintEffects = []resourcev1.DeviceTaintEffect{
	resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone,
}

// validateDeviceTaint returns the errors of a taint. Unknown effects of old objects are tolerated.
func validateDeviceTaint(t, old *resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
	all := metav1validation.ValidateLabelName(t.Key, at.Child("key"))
	if t.Value != "" {
		all = append(all, rule.Invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	}
	if old == nil || old.Effect != t.Effect {
		all = append(all, rule.OneOf(at.Child("effect"), t.Effect, deviceTaintEffects...)...)
	}
	return all
}

func validateDeviceTolerations(tolerations []resourcev1.DeviceToleration, at *field.Path) (all field.ErrorList) {
	for i, t := range tolerations {
		at := at.Index(i)
		if t.Key != "" {
			all = append(all, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		}
		switch t.Operator {
		case resourcev1.DeviceTolerationOpExists:
			if t.Value != "" {
				all = append(all, field.Invalid(at.Child("value"), t.Value, "must be empty for operator `Exists`"))
			}
		case resourcev1.DeviceTolerationOpEqual:
			all = append(all, rule.Invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
		default:
			all = append(all, rule.Supported(at.Child("operator"), t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
		}
		if t.Effect != "" {
			all = append(all, rule.Supported(at.Child("effect"), t.Effect, deviceTaintEffects...)...)
		}
	}
	return all
}
