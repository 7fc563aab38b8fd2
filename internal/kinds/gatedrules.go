package kinds

import (
	"iter"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/kinds/batch"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/resource"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// admissionGroup is the group whose names can be reserved.
const admissionGroup = "admissionregistration.k8s.io"

// Resources with rules of their own.
var (
	podsResource        = schema.GroupResource{Resource: "pods"}
	servicesResource    = schema.GroupResource{Resource: "services"}
	driversResource     = schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}
	ingressesResource   = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	claimsResource      = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	templatesResource   = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}
	jobsResource        = schema.GroupResource{Group: "batch", Resource: "jobs"}
	rangesResource      = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	autoscalersResource = schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
)

// rulesOf returns the rules of a kind for features that are off.
func rulesOf(d *resource.Definition, s gates.Settings) []rule {
	var rules []rule
	if path, ok := podSpecPaths()[d.GroupResource().String()]; ok {
		pods := strings.Split(path, ".")
		if s.Enabled(gates.ContainerRestartRules) && !s.Enabled(gates.RestartAllContainersOnContainerExits) {
			rules = append(rules, withoutRestartAll(pods))
		}
		if !s.Enabled(gates.EnvFiles) {
			rules = append(rules, withoutEnvFiles(pods))
		}
		if !s.Enabled(gates.SELinuxMount) {
			rules = append(rules, withoutMountedLabels(pods))
		}
	}
	if path, ok := map[schema.GroupResource][]string{claimsResource: {"spec"}, templatesResource: {"spec", "spec"}}[d.GroupResource()]; ok && !s.Enabled(gates.DRAConsumableCapacity) {
		rules = append(rules, withoutDistinct(path))
	}
	if d.GroupResource() == ingressesResource && !s.Enabled(gates.RelaxedServiceNameValidation) {
		rules = append(rules, withStrictServiceNames)
	}
	if d.Group == admissionGroup && !s.Enabled(gates.ManifestBasedAdmission) {
		rules = append(rules, withoutReservedNames)
	}
	if d.GroupResource() == podsResource && !s.Enabled(gates.InPlacePodLevelResources) {
		rules = append(rules, withoutPodResize)
	}
	if d.GroupResource() == podsResource && !s.Enabled(gates.InPlaceInitContainers) {
		rules = append(rules, withoutInitResize)
	}
	if f := (batch.TemplateFeatures{Scheduling: s.Enabled(gates.MutableSchedulingOfJobs), Resources: s.Enabled(gates.MutablePodResourcesOfJobs)}); d.GroupResource() == jobsResource && (!f.Scheduling || !f.Resources) {
		rules = append(rules, withTemplateFeatures(f))
	}
	if !s.Enabled(gates.StrictIPCIDRValidation) {
		rules = append(rules, withSloppyAddresses)
	}
	if d.GroupResource() == autoscalersResource && !s.Enabled(gates.HPAScaleToZero) {
		rules = append(rules, withoutScaleToZero)
	}
	return rules
}

// withoutEnvFiles returns the rule for pod specs at a path that leaves files out of the words of an
// error, unless the old pod spec has one.
func withoutEnvFiles(path []string) rule {
	return func(errs field.ErrorList, _, old resource.Tree, _ string) field.ErrorList {
		before, _ := kind.Get(old, path...).(resource.Tree)
		if slices.ContainsFunc(ofContainers("env[].valueFrom.fileKeyRef"), func(field string) bool { return hasAny(before, strings.Split(field, ".")) }) {
			return errs
		}
		for _, e := range errs {
			e.Detail = strings.Replace(e.Detail, "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`", "`configMapKeyRef` or `secretKeyRef`", 1)
		}
		return errs
	}
}

// withoutMountedLabels returns the rule for pod specs at a path that volumes get their SELinux
// labels recursively, unless the old pod spec names a policy.
func withoutMountedLabels(path []string) rule {
	path = append(path[:len(path):len(path)], "securityContext", "seLinuxChangePolicy")
	at := field.NewPath(path[0], path[1:]...)
	return func(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
		policy := kind.Text(obj, path...)
		if subresource != "" || policy == "" || policy == string(corev1.SELinuxChangePolicyRecursive) || kind.Text(old, path...) != "" {
			return errs
		}
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == at.String() && e.Type == field.ErrorTypeNotSupported })
		return append(errs, field.NotSupported(at, corev1.PodSELinuxChangePolicy(policy), []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive}))
	}
}

// withSloppyAddresses allows addresses with leading zeros and of IPv4 in IPv6, and CIDRs with more
// than their prefix, where kube-apiserver has allowed them always. Cluster IPs of services stay
// strict.
func withSloppyAddresses(errs field.ErrorList, _, _ resource.Tree, _ string) field.ErrorList {
	onlyStrict := func(e *field.Error, validate func(at *field.Path, value string, strict bool, old []string) field.ErrorList) bool {
		value, _ := e.BadValue.(string)
		if len(validate(nil, value, false, nil)) > 0 {
			return false
		}
		return slices.ContainsFunc(validate(nil, value, true, nil), func(strict *field.Error) bool { return strict.Detail == e.Detail })
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return e.Type == field.ErrorTypeInvalid && !strings.HasPrefix(e.Field, "spec.clusterIPs[") &&
			(onlyStrict(e, validation.IsValidIPForLegacyField) || onlyStrict(e, validation.IsValidCIDRForLegacyField))
	})
}

// withTemplateFeatures returns the rule for templates of jobs with some features.
func withTemplateFeatures(f batch.TemplateFeatures) rule {
	return func(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
		if old == nil || subresource != "" {
			return errs
		}
		return f.Revalidate(errs, kind.Decoded[batchv1.Job](obj), kind.Decoded[batchv1.Job](old))
	}
}

// withoutInitResize forbids to resize init containers that are no sidecars.
func withoutInitResize(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
	if subresource != "resize" {
		return errs
	}
	spec := field.NewPath("spec")
	now, before := kind.Decoded[corev1.Pod](obj).Spec.InitContainers, kind.Decoded[corev1.Pod](old).Spec.InitContainers
	if len(now) != len(before) {
		return errs // which is an error anyway
	}
	for i, c := range now {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			continue
		}
		at := spec.Child("initContainers").Index(i).String()
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return strings.HasPrefix(e.Field, at) })
		if !equality.Semantic.DeepEqual(c, before[i]) {
			errs = append(errs, field.Forbidden(spec, "resources for non-sidecar init containers are immutable"))
		}
	}
	return errs
}

// withoutReservedNames allows names that are otherwise reserved for objects from files.
func withoutReservedNames(errs field.ErrorList, _, _ resource.Tree, _ string) field.ErrorList {
	return slices.DeleteFunc(errs, policies.IsReservedName)
}

// withoutDistinct returns the rule for claims at a path that words the error about a constraint
// without an attribute as if only matching attributes existed.
func withoutDistinct(path []string) rule {
	prefix := strings.Join(path, ".") + ".devices.constraints["
	return func(errs field.ErrorList, _, _ resource.Tree, _ string) field.ErrorList {
		for _, e := range errs {
			if e.Type == field.ErrorTypeRequired && strings.HasPrefix(e.Field, prefix) && strings.HasSuffix(e.Field, "]") {
				e.Field, e.Detail = e.Field+".matchAttribute", ""
			}
		}
		return errs
	}
}

// withStrictServiceNames requires that names of services in an Ingress begin with a letter, unless
// the old object has one that does not.
func withStrictServiceNames(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
	strict := func(name string) []string {
		if len(apivalidation.NameIsDNSLabel(name, false)) > 0 {
			return nil // which is an error anyway
		}
		return apivalidation.NameIsDNS1035Label(name, false)
	}
	if subresource != "" {
		return errs
	}
	for _, name := range backends(old) {
		if len(strict(name)) > 0 {
			return errs
		}
	}
	for path, name := range backends(obj) {
		for _, message := range strict(name) {
			errs = append(errs, field.Invalid(path, name, message))
		}
	}
	return errs
}

// backends yields the names of the services in an Ingress with their paths.
func backends(ingress resource.Tree) iter.Seq2[*field.Path, string] {
	return func(yield func(*field.Path, string) bool) {
		spec := field.NewPath("spec")
		if name := kind.Text(ingress, "spec", "defaultBackend", "service", "name"); name != "" && !yield(spec.Child("defaultBackend", "service", "name"), name) {
			return
		}
		for i, r := range kind.Items(ingress, "spec", "rules") {
			for j, p := range kind.Items(r, "http", "paths") {
				at := spec.Child("rules").Index(i).Child("http", "paths").Index(j).Child("backend", "service", "name")
				if name := kind.Text(p, "backend", "service", "name"); name != "" && !yield(at, name) {
					return
				}
			}
		}
	}
}

// withoutScaleToZero requires a replica, unless the old object has none.
func withoutScaleToZero(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
	replicas, ok := kind.Get(obj, "spec", "minReplicas").(int64)
	if !ok || replicas > 0 || subresource != "" || old != nil && kind.Get(old, "spec", "minReplicas") == int64(0) {
		return errs
	}
	path := field.NewPath("spec", "minReplicas")
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == path.String() })
	return append(errs, field.Invalid(path, replicas, "must be greater than or equal to 1"))
}

// withoutPodResize forbids to resize pods that have resources for all containers together.
func withoutPodResize(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
	if subresource != "resize" || !hasResources(obj) && !hasResources(old) {
		return errs
	}
	return field.ErrorList{field.Forbidden(field.NewPath(""), "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled")}
}

func hasResources(pod resource.Tree) bool {
	for _, list := range []string{"requests", "limits"} {
		if all, _ := kind.Get(pod, "spec", "resources", list).(resource.Tree); len(all) > 0 {
			return true
		}
	}
	return false
}

// withoutRestartAll returns the rule for pod specs at a path while rules cannot restart all
// containers, unless the old pod spec has such a rule, and sidecars have no rules.
func withoutRestartAll(path []string) rule {
	return func(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList {
		before, _ := kind.Get(old, path...).(resource.Tree)
		if subresource != "" || restartsAll(before) {
			return errs
		}
		spec, _ := kind.Get(obj, path...).(resource.Tree)
		root := field.NewPath(path[0], path[1:]...)
		for _, list := range []string{"initContainers", "containers"} {
			for i, c := range kind.Items(spec, list) {
				at := root.Child(list).Index(i).Child("restartPolicyRules")
				rules := kind.Items(c, "restartPolicyRules")
				if list == "initContainers" && c["restartPolicy"] == string(corev1.ContainerRestartPolicyAlways) {
					errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return strings.HasPrefix(e.Field, at.String()) })
					if len(rules) > 0 {
						errs = append(errs, field.Forbidden(at, "restartPolicyRules are not allowed for init containers with restart policy Always"))
					}
					continue
				}
				for j, r := range rules {
					action, _ := r["action"].(string)
					if action == string(corev1.ContainerRestartRuleActionRestart) {
						continue
					}
					at := at.Index(j).Child("action")
					errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == at.String() })
					errs = append(errs, field.NotSupported(at, corev1.ContainerRestartRuleAction(action), []corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart}))
				}
			}
		}
		return errs
	}
}

// restartsAll reports whether a rule of a pod spec restarts all containers, or a sidecar has rules.
func restartsAll(spec resource.Tree) bool {
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range kind.Items(spec, list) {
			rules := kind.Items(c, "restartPolicyRules")
			if list == "initContainers" && len(rules) > 0 && c["restartPolicy"] == string(corev1.ContainerRestartPolicyAlways) {
				return true
			}
			for _, r := range rules {
				if r["action"] == string(corev1.ContainerRestartRuleActionRestartAllContainers) {
					return true
				}
			}
		}
	}
	return false
}
