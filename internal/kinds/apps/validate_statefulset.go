package apps

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateStatefulSet returns the errors of a StatefulSet. Rules that were added later do not apply
// to old objects that break them: those of claims, of the service name, and of the template.
func validateStatefulSet(s, old *appsv1.StatefulSet) field.ErrorList {
	path := field.NewPath("spec")
	if old == nil {
		return validateStatefulSpec(&s.Spec, statefulRules{claims: true, service: true, template: true}, path)
	}
	now, was := &s.Spec, &old.Spec
	rules := statefulRules{template: len(validateStatefulSpec(was, statefulRules{template: true}, nil)) == 0}
	all := validateStatefulSpec(now, rules, path)
	all = append(all, apivalidation.ValidateImmutableField(now.Selector, was.Selector, path.Child("selector"))...)
	all = append(all, rule.ValidateImmutable(untyped(now.VolumeClaimTemplates), untyped(was.VolumeClaimTemplates), path.Child("volumeClaimTemplates"))...)
	all = append(all, apivalidation.ValidateImmutableField(now.ServiceName, was.ServiceName, path.Child("serviceName"))...)
	return append(all, apivalidation.ValidateImmutableField(now.PodManagementPolicy, was.PodManagementPolicy, path.Child("podManagementPolicy"))...)
}

// statefulRules are the rules that do not apply to every object.
type statefulRules struct{ claims, service, template bool }

func validateStatefulSpec(spec *appsv1.StatefulSetSpec, rules statefulRules, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if policy := spec.PodManagementPolicy; policy != appsv1.OrderedReadyPodManagement && policy != appsv1.ParallelPodManagement {
		all = append(all, field.Invalid(path.Child("podManagementPolicy"), policy,
			fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	all = append(all, validateStatefulStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	all = append(all, validateRetention(spec.PersistentVolumeClaimRetentionPolicy, path.Child("persistentVolumeClaimRetentionPolicy"))...)
	if rules.claims {
		for i := range spec.VolumeClaimTemplates {
			all = append(all, storage.ValidateClaim(&spec.VolumeClaimTemplates[i].Spec, nil, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	all = append(all, apivalidation.ValidateNonnegativeField(int64(*spec.Replicas), path.Child("replicas"))...)
	all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.Ordinals.Start), path.Child("ordinals.start"))...)
	}
	if rules.service && spec.ServiceName != "" {
		all = append(all, rule.ValidateLabel(path.Child("serviceName"), spec.ServiceName)...)
	}
	all = append(all, validateWorkloadSelector(spec.Selector, "statefulset", path.Child("selector"))...)
	template := path.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		all = append(all, field.Invalid(path.Child("selector"), spec.Selector, ""))
	} else {
		all = append(all, validateStatefulTemplate(spec, selector, rules, template)...)
	}
	return append(all, pods.ValidateLongRunning(&spec.Template.Spec, "StatefulSet", template.Child("spec"))...)
}

func validateStatefulStrategy(strategy *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	rolling := strategy.RollingUpdate
	if rolling != nil && rolling.Partition == nil {
		rolling = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0), MaxUnavailable: rolling.MaxUnavailable}
	}
	switch strategy.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if rolling == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(path.Child("rollingUpdate"), rule.AsInternal(rolling),
			fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return nil
		}
		return validateStatefulRollout(rolling, path.Child("rollingUpdate"))
	}
	shown := appsv1.StatefulSetUpdateStrategy{Type: strategy.Type, RollingUpdate: rolling}
	return field.ErrorList{field.Invalid(path, rule.AsInternal(shown),
		fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
}

func validateStatefulRollout(rolling *appsv1.RollingUpdateStatefulSetStrategy, path *field.Path) field.ErrorList {
	all := apivalidation.ValidateNonnegativeField(int64(*rolling.Partition), path.Child("partition"))
	if n := rolling.MaxUnavailable; n != nil {
		path = path.Child("maxUnavailable")
		all = append(all, rule.ValidateAmount(*n, path)...)
		if rule.Amount(*n) == 0 {
			all = append(all, field.Invalid(path, *n, "cannot be 0"))
		}
		all = append(all, rule.ValidateShare(*n, path)...)
	}
	return all
}

func validateRetention(policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, path *field.Path) field.ErrorList {
	if policy == nil {
		return nil
	}
	supported := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	all := rule.OneOf(path.Child("whenDeleted"), policy.WhenDeleted, supported...)
	return append(all, rule.OneOf(path.Child("whenScaled"), policy.WhenScaled, supported...)...)
}

// validateStatefulTemplate returns the errors of the pods that the controller creates: with the
// claims as volumes and with generated names.
func validateStatefulTemplate(spec *appsv1.StatefulSetSpec, selector labels.Selector, rules statefulRules, path *field.Path) field.ErrorList {
	template := spec.Template
	template.Spec.Hostname, template.Spec.Subdomain = "", ""
	template.Spec.Volumes = withClaims(template.Spec.Volumes, spec.VolumeClaimTemplates)
	var all field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		all = append(all, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	if rules.template {
		all = append(all, pods.ValidateTemplate(&template, path)...)
	}
	// Kubernetes reports these errors twice.
	all = append(all, metav1validation.ValidateLabels(template.Labels, path.Child("labels"))...)
	return append(all, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
}

// withClaims returns the volumes of a pod: its claims, and those of the template that no claim
// replaces.
func withClaims(volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) []corev1.Volume {
	if len(claims) == 0 {
		return volumes
	}
	var all []corev1.Volume
	claimed := map[string]bool{}
	for _, claim := range claims {
		if claimed[claim.Name] {
			continue
		}
		claimed[claim.Name] = true
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
		all = append(all, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
	}
	for _, volume := range volumes {
		if !claimed[volume.Name] {
			all = append(all, volume)
		}
	}
	return all
}

// untyped returns claims without apiVersion and kind, as Kubernetes' errors show them.
func untyped(claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	if claims == nil {
		return nil
	}
	all := make([]corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		all[i] = claims[i]
		all[i].TypeMeta = metav1.TypeMeta{}
	}
	return all
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	status, path := &s.Status, field.NewPath("status")
	all := pods.ValidateCounts(path, []pods.Count{
		{Name: "replicas", Value: int64(status.Replicas)}, {Name: "readyReplicas", Value: int64(status.ReadyReplicas)}, {Name: "currentReplicas", Value: int64(status.CurrentReplicas)},
		{Name: "updatedReplicas", Value: int64(status.UpdatedReplicas)}, {Name: "availableReplicas", Value: int64(status.AvailableReplicas)},
		{Name: "observedGeneration", Value: status.ObservedGeneration}, {Name: "collisionCount", Value: int64(ptr.Deref(status.CollisionCount, 0))},
	})
	all = append(all, pods.ValidateParts(path, status.Replicas, []pods.Part{
		{Name: "readyReplicas", Value: status.ReadyReplicas}, {Name: "currentReplicas", Value: status.CurrentReplicas},
		{Name: "updatedReplicas", Value: status.UpdatedReplicas}, {Name: "availableReplicas", Value: status.AvailableReplicas},
	})...)
	if status.AvailableReplicas > status.ReadyReplicas {
		all = append(all, field.Invalid(path.Child("availableReplicas"), status.AvailableReplicas, "cannot be greater than status.readyReplicas"))
	}
	return append(all, pods.ValidateCollisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
