package defaults

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func appsTypes(f *functions) {
	on(f, Deployment)
	on(f, func(d *appsv1.DaemonSet) { defaultDaemonSet(&d.Spec) })
	on(f, func(s *appsv1.StatefulSet) { defaultStatefulSet(&s.Spec) })
	on(f, func(r *appsv1.ReplicaSet) { set(&r.Spec.Replicas, 1) })

	on(f, func(d *appsv1beta2.Deployment) { defaultDeploymentV1beta2(&d.Spec) })
	on(f, func(d *appsv1beta2.DaemonSet) { defaultDaemonSetV1beta2(&d.Spec) })
	on(f, func(s *appsv1beta2.StatefulSet) { defaultStatefulSetV1beta2(&s.Spec) })
	on(f, func(r *appsv1beta2.ReplicaSet) { set(&r.Spec.Replicas, 1) })

	on(f, defaultDeploymentV1beta1)
	on(f, defaultStatefulSetV1beta1)
}

// Deployment fills in what deployments of apps/v1 leave open.
func Deployment(d *appsv1.Deployment) {
	spec := &d.Spec
	set(&spec.Replicas, 1)
	fill(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		set(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		set(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		set(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	set(&spec.RevisionHistoryLimit, 10)
	set(&spec.ProgressDeadlineSeconds, 600)
	PodSpec(&spec.Template.Spec)
}

// quarter is how much of a deployment is replaced at once.
var quarter = intstr.FromString("25%")

func defaultDaemonSet(spec *appsv1.DaemonSetSpec) {
	fill(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		set(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		set(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		set(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // what is not said is nothing, once it has been stored
		set(&rolling.MaxUnavailable, intstr.FromInt32(0))
		set(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	set(&spec.RevisionHistoryLimit, 10)
}

func defaultStatefulSet(spec *appsv1.StatefulSetSpec) {
	fill(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		set(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		set(&rolling.Partition, 0)
		set(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	set(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&spec.Replicas, 1)
	set(&spec.RevisionHistoryLimit, 10)
	nameClaims(spec.VolumeClaimTemplates)
}

// In apps/v1beta2 all is as in apps/v1.

func defaultDeploymentV1beta2(spec *appsv1beta2.DeploymentSpec) {
	set(&spec.Replicas, 1)
	fill(&spec.Strategy.Type, appsv1beta2.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1beta2.RollingUpdateDeploymentStrategyType {
		set(&spec.Strategy.RollingUpdate, appsv1beta2.RollingUpdateDeployment{})
		set(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		set(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	set(&spec.RevisionHistoryLimit, 10)
	set(&spec.ProgressDeadlineSeconds, 600)
}

func defaultDaemonSetV1beta2(spec *appsv1beta2.DaemonSetSpec) {
	fill(&spec.UpdateStrategy.Type, appsv1beta2.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1beta2.RollingUpdateDaemonSetStrategyType {
		set(&spec.UpdateStrategy.RollingUpdate, appsv1beta2.RollingUpdateDaemonSet{})
		set(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		set(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // what is not said is nothing, once it has been stored
		set(&rolling.MaxUnavailable, intstr.FromInt32(0))
		set(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	set(&spec.RevisionHistoryLimit, 10)
}

func defaultStatefulSetV1beta2(spec *appsv1beta2.StatefulSetSpec) {
	fill(&spec.PodManagementPolicy, appsv1beta2.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1beta2.RollingUpdateStatefulSetStrategyType
		set(&spec.UpdateStrategy.RollingUpdate, appsv1beta2.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1beta2.RollingUpdateStatefulSetStrategyType {
		set(&rolling.Partition, 0)
		set(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	set(&spec.PersistentVolumeClaimRetentionPolicy, appsv1beta2.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1beta2.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1beta2.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&spec.Replicas, 1)
	set(&spec.RevisionHistoryLimit, 10)
	nameClaims(spec.VolumeClaimTemplates)
}

// In apps/v1beta1 the labels of the template stand in for the selector and the labels of the workload.

func defaultDeploymentV1beta1(d *appsv1beta1.Deployment) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	set(&spec.Replicas, 1)
	fill(&spec.Strategy.Type, appsv1beta1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1beta1.RollingUpdateDeploymentStrategyType {
		set(&spec.Strategy.RollingUpdate, appsv1beta1.RollingUpdateDeployment{})
		set(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		set(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	set(&spec.RevisionHistoryLimit, 2)
	set(&spec.ProgressDeadlineSeconds, 600)
}

func defaultStatefulSetV1beta1(s *appsv1beta1.StatefulSet) {
	spec := &s.Spec
	fill(&spec.PodManagementPolicy, appsv1beta1.OrderedReadyPodManagement)
	fill(&spec.UpdateStrategy.Type, appsv1beta1.OnDeleteStatefulSetStrategyType)
	selectTemplate(&spec.Selector, &s.ObjectMeta, &spec.Template)
	set(&spec.PersistentVolumeClaimRetentionPolicy, appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1beta1.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1beta1.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&spec.Replicas, 1)
	set(&spec.RevisionHistoryLimit, 10)
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1beta1.RollingUpdateStatefulSetStrategyType {
		set(&rolling.Partition, 0)
		set(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	nameClaims(spec.VolumeClaimTemplates)
}

// nameClaims says what the claim templates of a StatefulSet are, whatever the client says.
func nameClaims(claims []corev1.PersistentVolumeClaim) {
	for i := range claims {
		claims[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
}

// selectTemplate selects the pods of the template where nothing else is said, and labels the workload as them.
func selectTemplate(selector **metav1.LabelSelector, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec) {
	if template.Labels == nil {
		return
	}
	set(selector, metav1.LabelSelector{MatchLabels: maps.Clone(template.Labels)})
	if len(meta.Labels) == 0 {
		meta.Labels = maps.Clone(template.Labels)
	}
}
