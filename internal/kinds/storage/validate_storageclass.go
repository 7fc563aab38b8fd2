package storage

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

// validateStorageClass returns the errors of a storage class. The fields that determine its volumes
// are immutable.
func validateStorageClass(class, old *storagev1.StorageClass) field.ErrorList {
	var all field.ErrorList
	if class.Provisioner != "" {
		all = append(all, rule.ValidateQualifiedName(field.NewPath("provisioner"), strings.ToLower(class.Provisioner))...)
	}
	all = append(all, validateParameters(class.Parameters, field.NewPath("parameters"))...)
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" {
		all = append(all, rule.OneOf(field.NewPath("reclaimPolicy"), *policy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	all = append(all, validateBindingMode(class.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
	all = append(all, validateTopologies(class.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil || class.Provisioner != old.Provisioner {
		all = append(all, rule.RequireText(class.Provisioner, field.NewPath("provisioner"))...)
	}
	if old == nil {
		return all
	}
	for _, part := range []struct {
		name        string
		now, before any
	}{
		{"provisioner", class.Provisioner, old.Provisioner},
		{"parameters", class.Parameters, old.Parameters},
		{"reclaimPolicy", class.ReclaimPolicy, old.ReclaimPolicy},
		{"volumeBindingMode", class.VolumeBindingMode, old.VolumeBindingMode},
	} {
		if !equality.Semantic.DeepEqual(part.now, part.before) {
			all = append(all, rule.Immutable(field.NewPath(part.name))...)
		}
	}
	return all
}

func validateBindingMode(mode *storagev1.VolumeBindingMode, at *field.Path) field.ErrorList {
	supported := []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
	switch {
	case mode == nil:
		return field.ErrorList{field.Required(at, "")}
	case !slices.Contains(supported, *mode):
		return field.ErrorList{field.NotSupported(at, *mode, supported)}
	}
	return nil
}

func validateParameters(parameters map[string]string, at *field.Path) field.ErrorList {
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(at, "", maxParameters)}
	}
	var all field.ErrorList
	if _, ok := parameters[""]; ok {
		all = append(all, field.Invalid(at, "", "field can not be empty."))
	}
	if textSize(parameters) > maxParametersSize {
		all = append(all, field.TooLong(at, "", maxParametersSize))
	}
	return all
}

func textSize(texts map[string]string) int {
	size := 0
	for key, value := range texts {
		size += len(key) + len(value)
	}
	return size
}

// validateTopologies validates where volumes may be provisioned. Terms must not repeat.
func validateTopologies(terms []corev1.TopologySelectorTerm, at *field.Path) field.ErrorList {
	var all field.ErrorList
	repeats := rule.Repeats[string]()
	repeats(topologyOf(nil)) // As in Kubernetes, terms are also compared with an empty one.
	for i, term := range terms {
		expressions := at.Index(i).Child("matchLabelExpressions")
		values := map[string][]string{}
		for j, e := range term.MatchLabelExpressions {
			all = append(all, validateTopology(e, expressions.Index(j))...)
			if _, twice := values[e.Key]; twice {
				all = append(all, field.Duplicate(expressions.Index(j).Child("key"), e.Key))
			}
			values[e.Key] = e.Values
		}
		if repeats(topologyOf(values)) {
			all = append(all, field.Duplicate(expressions, ""))
		}
	}
	return all
}

func validateTopology(e corev1.TopologySelectorLabelRequirement, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(e.Values) == 0 {
		all = append(all, field.Required(at.Child("values"), ""))
	}
	repeats := rule.Repeats[string]()
	for i, value := range e.Values {
		if repeats(value) {
			all = append(all, field.Duplicate(at.Child("values").Index(i), value))
		}
	}
	return append(all, metav1validation.ValidateLabelName(e.Key, at.Child("key"))...)
}

// topologyOf returns a text that is the same for terms which select the same nodes: those with the
// same keys and, for each key, the same set of values.
func topologyOf(values map[string][]string) string {
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text = append(strconv.AppendQuote(text, key), '=')
		for _, value := range slices.Compact(slices.Sorted(slices.Values(values[key]))) {
			text = append(strconv.AppendQuote(text, value), ',')
		}
	}
	return string(text)
}

// validateVolumeAttributesClass returns the errors of a class, which is immutable.
func validateVolumeAttributesClass(class, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var all field.ErrorList
	driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
	if old != nil && class.DriverName != old.DriverName {
		all = append(all, field.Forbidden(driver, "updates to driverName are forbidden."))
	}
	if old != nil && !maps.Equal(class.Parameters, old.Parameters) {
		all = append(all, field.Forbidden(parameters, "updates to parameters are forbidden."))
	}
	if class.DriverName == "" {
		all = append(all, field.Required(driver, ""))
	} else {
		all = append(all, rule.ValidateQualifiedName(driver, strings.ToLower(class.DriverName))...)
	}
	all = append(all, validateParameters(class.Parameters, parameters)...)
	if len(class.Parameters) == 0 {
		all = append(all, field.Required(parameters, "must contain at least one key/value pair"))
	}
	return all
}
