package pods

import (
	"fmt"
	"math"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// mutableSpec lists the mutable fields in the words of Kubernetes' message.
const mutableSpec = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// validatePodUpdate rejects changes of immutable fields: it restores the mutable fields in a copy
// and compares the rest.
func validatePodUpdate(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, containers := range []struct {
		name     string
		now, old []corev1.Container
	}{{"containers", spec.Containers, old.Containers}, {"initContainers", spec.InitContainers, old.InitContainers}} {
		at := path.Child(containers.name)
		if len(containers.now) != len(containers.old) {
			return append(all, field.Forbidden(at, "pod updates may not add or remove containers"))
		}
		for i := range containers.now {
			c := &containers.now[i]
			if c.Image == "" {
				all = append(all, field.Required(at.Index(i).Child("image"), ""))
			}
			all = append(all, validateTrimmedImage(c, at.Index(i))...)
		}
	}
	problems, stop := validateDeadlineUpdate(spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	all = append(all, problems...)
	if stop {
		return all
	}
	all = append(all, validateTolerationUpdate(spec.Tolerations, old.Tolerations, path.Child("tolerations"))...)
	all = append(all, validateGateUpdate(spec.SchedulingGates, old.SchedulingGates, path.Child("schedulingGates"))...)
	if equality.Semantic.DeepEqual(spec, old) {
		return all
	}
	rest := restoreMutable(spec, old)
	if len(old.SchedulingGates) > 0 && !equality.Semantic.DeepEqual(rest.NodeSelector, old.NodeSelector) {
		all = append(all, validateSelectorAdditions(rest.NodeSelector, old.NodeSelector, path.Child("nodeSelector"))...)
		rest.NodeSelector = old.NodeSelector
	}
	if len(old.SchedulingGates) > 0 {
		all = append(all, validateNodeAffinityUpdate(rest, old, path.Child("affinity", "nodeAffinity"))...)
	}
	if !equality.Semantic.DeepEqual(rest, old) {
		all = append(all, field.Forbidden(path, fmt.Sprintf("pod updates may not change fields other than %s\n%v", mutableSpec, diff.Diff(rule.AsInternal(old), rule.AsInternal(rest)))))
	}
	return all
}

// validateNodeAffinityUpdate lets the node affinity of a gated pod become stricter. It restores the
// old affinity in rest.
func validateNodeAffinityUpdate(rest, old *corev1.PodSpec, at *field.Path) field.ErrorList {
	var now, before *corev1.NodeAffinity
	if rest.Affinity != nil {
		now = rest.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		before = old.Affinity.NodeAffinity
	}
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	switch {
	case rest.Affinity == nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		rest.Affinity.NodeAffinity = before
	}
	if before == nil || before.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil // an affinity may be added
	}
	var all field.ErrorList
	var has []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		has = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	had := before.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	at = at.Child(required, "nodeSelectorTerms")
	if len(had) > 0 && len(has) != len(had) {
		return field.ErrorList{field.Invalid(at, rule.AsInternal(has), "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	for i := range had {
		if !extends(&has[i], &had[i]) {
			all = append(all, field.Invalid(at.Index(i), rule.AsInternal(has[i]), "only additions are allowed (no mutations or deletions)"))
		}
	}
	return all
}

// extends reports whether a term starts with all requirements of another. An empty term selects
// nothing and must stay empty.
func extends(term, old *corev1.NodeSelectorTerm) bool {
	begins := func(now, before []corev1.NodeSelectorRequirement) bool {
		return len(now) >= len(before) && equality.Semantic.DeepEqual(now[:len(before)], before)
	}
	if len(old.MatchExpressions)+len(old.MatchFields) == 0 {
		return len(term.MatchExpressions)+len(term.MatchFields) == 0
	}
	return begins(term.MatchExpressions, old.MatchExpressions) && begins(term.MatchFields, old.MatchFields)
}

// restoreMutable returns a copy of a spec with the old values of mutable fields.
func restoreMutable(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	if ptr.Deref(old.TerminationGracePeriodSeconds, 0) < 0 && ptr.Deref(rest.TerminationGracePeriodSeconds, 0) == 1 {
		rest.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	return rest
}

// validateDeadlineUpdate lets a deadline be set or shortened.
func validateDeadlineUpdate(now, old *int64, at *field.Path) (problems field.ErrorList, stop bool) {
	switch {
	case now == nil && old == nil:
		return nil, false
	case now == nil:
		return field.ErrorList{field.Invalid(at, now, "must not update from a positive integer to nil value")}, false
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, *now, validation.InclusiveRangeError(0, math.MaxInt32))}, true
	case old != nil && *old < *now:
		return field.ErrorList{field.Invalid(at, *now, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// validateTolerationUpdate accepts new tolerations and changes of tolerationSeconds only.
func validateTolerationUpdate(now, old []corev1.Toleration, at *field.Path) field.ErrorList {
	for _, before := range old {
		found := false
		for _, t := range now {
			t.TolerationSeconds = before.TolerationSeconds
			found = found || t == before
		}
		if !found {
			return field.ErrorList{field.Forbidden(at, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return ValidateTolerations(now, at)
}

// validateGateUpdate lets scheduling gates be removed only.
func validateGateUpdate(now, old []corev1.PodSchedulingGate, at *field.Path) field.ErrorList {
	var all field.ErrorList
	had := map[string]bool{}
	for _, gate := range old {
		had[gate.Name] = true
	}
	for i, gate := range now {
		if !had[gate.Name] {
			all = append(all, field.Forbidden(at.Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	return all
}

// validateSelectorAdditions lets the node selector of a gated pod become stricter.
func validateSelectorAdditions(now, old map[string]string, at *field.Path) field.ErrorList {
	for key, value := range old {
		if after, ok := now[key]; !ok || after != value {
			return field.ErrorList{field.Invalid(at, now, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")}
		}
	}
	return nil
}
