package podsecurity

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// unrestricted are subresources of pods that cannot change what the standards restrict. Others
// have a pod as their object.
var unrestricted = map[string]bool{
	"attach": true, "binding": true, "eviction": true, "exec": true, "log": true, "portforward": true, "proxy": true, "status": true,
}

// pod evaluates a pod that is created or updated.
func (r *rules) pod(a *resource.Admitted) verdict {
	if unrestricted[a.Request.Subresource] {
		return verdict{}
	}
	if v, ok := r.exemption(a); ok {
		return v
	}
	labels, err := r.labelsOf(a.Request.Namespace)
	if err != nil {
		return undecidable(apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", a.Request.Namespace)), err)
	}
	standards, errs := r.policyOf(labels)
	if len(errs) == 0 && standards.FullyPrivileged() {
		privileged := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
		return verdict{
			annotations: map[string]string{api.EnforcedPolicyAnnotationKey: privileged.String()},
			evaluations: []evaluation{{true, standards.Enforce, "enforce"}},
		}
	}
	pod, err := podOf(a, a.Object)
	if err != nil {
		return undecidable(apierrors.NewBadRequest("failed to decode object"), err)
	}
	if a.Operation == resource.OperationUpdate {
		old, err := podOf(a, a.Old)
		if err != nil {
			return undecidable(apierrors.NewBadRequest("failed to decode old object"), err)
		}
		if !significant(&pod.Spec, &old.Spec) {
			return verdict{}
		}
	}
	return r.evaluate(a, standards, errs, &pod.ObjectMeta, &pod.Spec, true)
}

// template evaluates the pod template of an object that is created or updated. It only warns, as
// the pods that are made from it are rejected themselves.
func (r *rules) template(a *resource.Admitted) verdict {
	if a.Request.Subresource != "" {
		return verdict{}
	}
	if v, ok := r.exemption(a); ok {
		return v
	}
	failed := func(what string, err error) verdict {
		return verdict{failure: fatal, annotations: map[string]string{"error": fmt.Sprintf("failed to %s: %v", what, err)}}
	}
	labels, err := r.labelsOf(a.Request.Namespace)
	if err != nil {
		return failed(fmt.Sprintf("lookup namespace %q", a.Request.Namespace), err)
	}
	standards, errs := r.policyOf(labels)
	if len(errs) == 0 && standards.Warn.Level == api.LevelPrivileged && standards.Audit.Level == api.LevelPrivileged {
		return verdict{}
	}
	template, err := templateOf(a)
	if err != nil {
		return failed("decode object", err)
	}
	if template == nil {
		return verdict{}
	}
	return r.evaluate(a, standards, errs, &template.ObjectMeta, &template.Spec, false)
}

// exemption returns the verdict for a user or namespace that the configuration exempts.
func (r *rules) exemption(a *resource.Admitted) (v verdict, ok bool) {
	switch {
	case r.exemptsNamespace(a.Request.Namespace):
		return exempt("namespace"), true
	case r.exemptsUser(a.Request.User.GetName()):
		return exempt("user"), true
	}
	return verdict{}, false
}

// labelsOf returns the labels of a namespace.
func (r *rules) labelsOf(name string) (map[string]string, error) {
	o, _ := r.state.Get(object.Key{Resource: namespaces, Name: name})
	if o == nil {
		return nil, apierrors.NewNotFound(namespaces, name)
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, err
	}
	namespace, err := admission.Decode[corev1.Namespace](tree)
	if err != nil {
		return nil, err
	}
	return namespace.Labels, nil
}

// evaluate returns the verdict for a pod in a namespace with the given standards, and errors in its
// labels. With enforce, a violation of the enforced standard rejects the request.
func (r *rules) evaluate(a *resource.Admitted, standards api.Policy, errs field.ErrorList, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) verdict {
	if r.exemptsClass(spec.RuntimeClassName) {
		return exempt("runtimeClass")
	}
	v := verdict{annotations: map[string]string{}}
	if len(errs) > 0 {
		v.annotations["error"], v.failure = fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()), tolerated
	}
	results := map[api.LevelVersion]policy.AggregateCheckResult{}
	violation := func(of api.LevelVersion, verb string) string {
		result, ok := results[of]
		if !ok {
			result = policy.AggregateCheckResults(r.evaluator.EvaluatePod(of, meta, spec))
			results[of] = result
		}
		if result.Allowed {
			return ""
		}
		return fmt.Sprintf("%s PodSecurity %q: %s", verb, of.String(), result.ForbiddenDetail())
	}
	if enforce {
		v.annotations[api.EnforcedPolicyAnnotationKey] = standards.Enforce.String()
		text := violation(standards.Enforce, "violates")
		v.evaluations = append(v.evaluations, evaluation{text == "", standards.Enforce, "enforce"})
		if text != "" {
			v.refusal = apierrors.NewForbidden(a.Request.GroupResource(), a.Name, errors.New(text))
		}
	}
	if text := violation(standards.Audit, "would violate"); text != "" {
		v.annotations[api.AuditViolationsAnnotationKey] = text
		v.evaluations = append(v.evaluations, evaluation{false, standards.Audit, "audit"})
	}
	if v.refusal == nil {
		if text := violation(standards.Warn, "would violate"); text != "" {
			v.warnings = append(v.warnings, text)
			v.evaluations = append(v.evaluations, evaluation{false, standards.Warn, "warn"})
		}
	}
	return v
}

// significant reports whether an update changes an image or adds a container. Kubernetes evaluates
// no other updates, as nearly all else in the spec of a pod is immutable.
func significant(pod, old *corev1.PodSpec) bool {
	if imagesDiffer(pod.Containers, old.Containers) || imagesDiffer(pod.InitContainers, old.InitContainers) {
		return true
	}
	images := map[string]string{}
	for i := range old.EphemeralContainers {
		c := &old.EphemeralContainers[i]
		if _, ok := images[c.Name]; !ok {
			images[c.Name] = c.Image
		}
	}
	for i := range pod.EphemeralContainers {
		c := &pod.EphemeralContainers[i]
		if image, ok := images[c.Name]; !ok || image != c.Image {
			return true
		}
	}
	return false
}

func imagesDiffer(containers, old []corev1.Container) bool {
	if len(containers) != len(old) {
		return true
	}
	for i := range containers {
		if containers[i].Image != old[i].Image {
			return true
		}
	}
	return false
}
