package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilnet "k8s.io/utils/net"
)

var nodeFeature = rule.Pattern(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// validateNode returns the errors of a node.
func validateNode(node, old *corev1.Node) field.ErrorList {
	all := validateNodeAnnotations(node.Annotations)
	all = append(all, validateTaints(node.Spec.Taints, field.NewPath("metadata", "taints"))...)
	all = append(all, validateNodeResources(&node.Status)...)
	if swap := node.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		all = append(all, field.Invalid(field.NewPath("metadata", "nodeSwapStatus", "capacity"), *swap.Capacity, rule.NotPositive))
	}
	all = append(all, validateNodeFeatures(node.Status.DeclaredFeatures)...)
	all = append(all, validatePodRanges(node.Spec.PodCIDRs)...)
	if old != nil {
		all = append(all, validateNodeStatus(node, old)...)
	}
	return all
}

// validateNodeStatus returns the errors of changes that updates of the node and of its status have
// in common.
func validateNodeStatus(node, old *corev1.Node) field.ErrorList {
	all := validateNodeAnnotations(node.Annotations)
	all = append(all, validateNodeResources(&node.Status)...)
	all = append(all, validateNodeFeatures(node.Status.DeclaredFeatures)...)
	seen := map[corev1.NodeAddress]bool{}
	for i, address := range node.Status.Addresses {
		if seen[address] {
			all = append(all, field.Duplicate(field.NewPath("status", "addresses").Index(i), rule.AsInternal(address)))
		}
		seen[address] = true
	}
	all = append(all, validatePodRangesStay(node.Spec.PodCIDRs, old.Spec.PodCIDRs)...)
	if was, is := old.Spec.ProviderID, node.Spec.ProviderID; was != "" && is != was {
		message := "field cannot be modified once set"
		if is == "" {
			message = "field cannot be cleared once set"
		}
		all = append(all, field.Invalid(field.NewPath("spec", "providerID"), nil, message))
	}
	all = append(all, validateTaints(node.Spec.Taints, field.NewPath("metadata", "taints"))...)
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		all = append(all, field.Forbidden(field.NewPath("spec", "externalID"), "may not be updated"))
	}
	return all
}

// validateTaints returns the errors of taints. For the field of the spec, Kubernetes names a path
// in metadata, where taints once were.
func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var all field.ErrorList
	type id struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[id]bool{}
	for i, taint := range taints {
		at := path.Index(i)
		all = append(all, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		if problems := validation.IsValidLabelValue(taint.Value); len(problems) > 0 {
			all = append(all, field.Invalid(at.Child("value"), taint.Value, rule.Join(problems)))
		}
		all = append(all, rule.OneOf(at.Child("effect"), taint.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		if seen[id{taint.Key, taint.Effect}] {
			twice := field.Duplicate(at, rule.AsInternal(taint))
			twice.Detail = "taints must be unique by key and effect pair"
			all = append(all, twice)
		}
		seen[id{taint.Key, taint.Effect}] = true
	}
	return all
}

func validateNodeResources(status *corev1.NodeStatus) field.ErrorList {
	var all field.ErrorList
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"capacity", status.Capacity}, {"allocatable", status.Allocatable}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			all = append(all, pods.ValidateQuantity(name, list.of[name], field.NewPath("status", list.name, string(name)))...)
		}
	}
	return all
}

// validateNodeFeatures requires sorted names of features.
func validateNodeFeatures(features []string) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("status", "declaredFeatures")
	for i, feature := range features {
		if i > 0 && feature == features[i-1] {
			all = append(all, field.Duplicate(path.Index(i), feature))
		}
		if i > 0 && feature < features[i-1] {
			all = append(all, field.Invalid(path.Index(i), feature, "list must be sorted alphabetically"))
		}
		switch {
		case len(feature) > validation.DNS1123SubdomainMaxLength:
			all = append(all, field.Invalid(path.Index(i), feature,
				fmt.Sprintf("invalid feature name %q: must be no more than %d characters", feature, validation.DNS1123SubdomainMaxLength)))
		case !nodeFeature().MatchString(feature):
			all = append(all, field.Invalid(path.Index(i), feature, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
				"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", feature)))
		}
	}
	return all
}

// validatePodRanges accepts one range for each IP family.
func validatePodRanges(ranges []string) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("spec", "podCIDRs")
	for i, value := range ranges {
		all = append(all, validation.IsValidCIDRForLegacyField(path.Index(i), value, true, nil)...)
	}
	if len(ranges) < 2 {
		return all
	}
	both, err := utilnet.IsDualStackCIDRStrings(ranges)
	if err != nil {
		all = append(all, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !both || len(ranges) > 2 {
		all = append(all, field.Invalid(path, ranges, "may specify no more than one CIDR for each IP family"))
	}
	return all
}

// validatePodRangesStay lets ranges be set once.
func validatePodRangesStay(now, before []string) field.ErrorList {
	if len(before) == 0 {
		return nil
	}
	var all field.ErrorList
	changed := field.Forbidden(field.NewPath("spec", "podCIDRs"), `node updates may not change podCIDR except from "" to valid`)
	if len(now) != len(before) {
		return field.ErrorList{changed}
	}
	for i := range before {
		if now[i] != before[i] {
			all = append(all, changed)
		}
	}
	return all
}
