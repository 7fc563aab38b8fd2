package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const (
	// mostPods is the maximum number of existing pods that a change of the enforced standard checks.
	mostPods = 3000
	// podsTimeout is the maximum time for that.
	podsTimeout = time.Second
)

// namespace rejects invalid labels. If the enforced standard changes, it warns about existing pods
// that violate the new one.
func (r *rules) namespace(ctx context.Context, a *resource.Admitted) verdict {
	if a.Request.Subresource != "" {
		return verdict{}
	}
	namespace, err := admission.Decode[corev1.Namespace](a.Object)
	if err != nil {
		return undecidable(apierrors.NewBadRequest("failed to decode object"), err)
	}
	standards, errs := r.policyOf(namespace.Labels)
	invalid := func() verdict { return verdict{refusal: apierrors.NewInvalid(a.Kind.GroupKind(), a.Name, errs)} }
	if a.Operation == resource.OperationCreate {
		switch {
		case len(errs) > 0:
			return invalid()
		case r.exemptsNamespace(a.Name):
			return r.ignored(namespace, standards)
		}
		return verdict{}
	}
	old, err := admission.Decode[corev1.Namespace](a.Old)
	if err != nil {
		return undecidable(apierrors.NewBadRequest("failed to decode old object"), err)
	}
	before, oldErrs := r.policyOf(old.Labels)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return invalid()
	}
	relaxed := standards.Enforce.Version == before.Enforce.Version &&
		api.CompareLevels(standards.Enforce.Level, before.Enforce.Level) <= 0
	switch {
	case relaxed, standards.Enforce == before.Enforce, standards.Enforce.Level == api.LevelPrivileged:
		return verdict{}
	case r.exemptsNamespace(a.Name):
		return r.ignored(namespace, standards)
	}
	return verdict{warnings: r.violations(ctx, namespace.Name, standards.Enforce)}
}

// ignored warns about labels of an exempt namespace that have no effect.
func (r *rules) ignored(namespace *corev1.Namespace, standards api.Policy) verdict {
	if standards.FullyPrivileged() || standards.Equivalent(&r.defaults) {
		return verdict{}
	}
	var set []string
	for _, mode := range []struct {
		name, level, version string
		standard             api.LevelVersion
	}{
		{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, standards.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, standards.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, standards.Warn},
	} {
		_, level := namespace.Labels[mode.level]
		_, version := namespace.Labels[mode.version]
		if (level || version) && mode.standard.Level != api.LevelPrivileged {
			set = append(set, mode.name+"="+mode.standard.String())
		}
	}
	return verdict{warnings: []string{fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored",
		namespace.Name, strings.Join(set, ", "))}}
}

// violations returns warnings about the pods of a namespace that violate a standard. Of the pods of
// one controller, all but the first come last, as time and number are limited.
func (r *rules) violations(ctx context.Context, namespace string, standard api.LevelVersion) (warnings []string) {
	timeout := podsTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := r.podsOf(namespace)
	if err != nil {
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	type group struct { // pods with the same violation
		text, first string
		pods        int
	}
	var groups []*group
	byText := map[string]*group{}
	checked := 0
	for _, pod := range all[:min(len(all), mostPods)] {
		result := policy.AggregateCheckResults(r.evaluator.EvaluatePod(standard, &pod.ObjectMeta, &pod.Spec))
		checked++
		if !result.Allowed {
			text := result.ForbiddenReason()
			g := byText[text]
			if g == nil {
				g = &group{text: text, first: pod.Name}
				byText[text], groups = g, append(groups, g)
			}
			g.first = min(g.first, pod.Name)
			g.pods++
		}
		if ctx.Err() != nil {
			break
		}
	}
	if checked < len(all) {
		warnings = append(warnings, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(all)))
	}
	if len(groups) == 0 {
		return warnings
	}
	warnings = append(warnings, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, standard.String()))
	var texts []string
	for _, g := range groups {
		others := ""
		switch {
		case g.pods == 2:
			others = " (and 1 other pod)"
		case g.pods > 2:
			others = fmt.Sprintf(" (and %d other pods)", g.pods-1)
		}
		texts = append(texts, g.first+others+": "+g.text)
	}
	slices.Sort(texts)
	return append(warnings, texts...)
}

// podsOf returns the pods of a namespace that no runtime class exempts: first those without a
// controller and one of each controller, then the others.
func (r *rules) podsOf(namespace string) ([]*corev1.Pod, error) {
	var first, others []*corev1.Pod
	seen := map[types.UID]bool{}
	for o := range r.state.Snapshot(pods).All(namespace) {
		tree, err := o.Tree()
		if err != nil {
			return nil, err
		}
		pod, err := admission.Decode[corev1.Pod](tree)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Key, err)
		}
		if r.exemptsClass(pod.Spec.RuntimeClassName) {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			if seen[owner.UID] {
				others = append(others, pod)
				continue
			}
			seen[owner.UID] = true
		}
		first = append(first, pod)
	}
	return append(first, others...), nil
}
