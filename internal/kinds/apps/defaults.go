package apps

import (
	"maps"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"
	"github.com/kapok-dev/kapok/internal/kinds/pods"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, defaultDeployment)
	defaults.On(f, func(d *appsv1.DaemonSet) { defaultDaemonSet(&d.Spec) })
	defaults.On(f, func(s *appsv1.StatefulSet) { defaultStatefulSet(&s.Spec) })
	defaults.On(f, func(r *appsv1.ReplicaSet) { defaults.Pointer(&r.Spec.Replicas, 1) })

	defaults.On(f, func(d *appsv1beta2.Deployment) { defaultDeploymentV1beta2(&d.Spec) })
	defaults.On(f, func(d *appsv1beta2.DaemonSet) { defaultDaemonSetV1beta2(&d.Spec) })
	defaults.On(f, func(s *appsv1beta2.StatefulSet) { defaultStatefulSetV1beta2(&s.Spec) })
	defaults.On(f, func(r *appsv1beta2.ReplicaSet) { defaults.Pointer(&r.Spec.Replicas, 1) })

	defaults.On(f, defaultDeploymentV1beta1)
	defaults.On(f, defaultStatefulSetV1beta1)
	defaults.On(f, defaultReplicationController)
	extensionsTypes(f)
}

// defaultDeployment applies the defaults of Deployments in apps/v1.
func defaultDeployment(d *appsv1.Deployment) {
	spec := &d.Spec
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Value(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		defaults.Pointer(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
	defaults.Pointer(&spec.ProgressDeadlineSeconds, 600)
	pods.DefaultPodSpec(&spec.Template.Spec)
}

// quarter is the default part of the pods that a rollout replaces at once.
var quarter = intstr.FromString("25%")

func defaultDaemonSet(spec *appsv1.DaemonSetSpec) {
	defaults.Value(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // a stored object without the field has 0
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(0))
		defaults.Pointer(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
}

func defaultStatefulSet(spec *appsv1.StatefulSetSpec) {
	defaults.Value(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		defaults.Pointer(&rolling.Partition, 0)
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	defaults.Pointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
	nameClaims(spec.VolumeClaimTemplates)
}

// apps/v1beta2 has the defaults of apps/v1.

func defaultDeploymentV1beta2(spec *appsv1beta2.DeploymentSpec) {
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Value(&spec.Strategy.Type, appsv1beta2.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1beta2.RollingUpdateDeploymentStrategyType {
		defaults.Pointer(&spec.Strategy.RollingUpdate, appsv1beta2.RollingUpdateDeployment{})
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
	defaults.Pointer(&spec.ProgressDeadlineSeconds, 600)
}

func defaultDaemonSetV1beta2(spec *appsv1beta2.DaemonSetSpec) {
	defaults.Value(&spec.UpdateStrategy.Type, appsv1beta2.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1beta2.RollingUpdateDaemonSetStrategyType {
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate, appsv1beta2.RollingUpdateDaemonSet{})
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // a stored object without the field has 0
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(0))
		defaults.Pointer(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
}

func defaultStatefulSetV1beta2(spec *appsv1beta2.StatefulSetSpec) {
	defaults.Value(&spec.PodManagementPolicy, appsv1beta2.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1beta2.RollingUpdateStatefulSetStrategyType
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate, appsv1beta2.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1beta2.RollingUpdateStatefulSetStrategyType {
		defaults.Pointer(&rolling.Partition, 0)
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	defaults.Pointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1beta2.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1beta2.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1beta2.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
	nameClaims(spec.VolumeClaimTemplates)
}

// In apps/v1beta1, the labels of the template are the default of the selector and of the workload's
// labels.

func defaultDeploymentV1beta1(d *appsv1beta1.Deployment) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Value(&spec.Strategy.Type, appsv1beta1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1beta1.RollingUpdateDeploymentStrategyType {
		defaults.Pointer(&spec.Strategy.RollingUpdate, appsv1beta1.RollingUpdateDeployment{})
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxSurge, quarter)
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 2)
	defaults.Pointer(&spec.ProgressDeadlineSeconds, 600)
}

func defaultStatefulSetV1beta1(s *appsv1beta1.StatefulSet) {
	spec := &s.Spec
	defaults.Value(&spec.PodManagementPolicy, appsv1beta1.OrderedReadyPodManagement)
	defaults.Value(&spec.UpdateStrategy.Type, appsv1beta1.OnDeleteStatefulSetStrategyType)
	selectTemplate(&spec.Selector, &s.ObjectMeta, &spec.Template)
	defaults.Pointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1beta1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Value(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1beta1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1beta1.RollingUpdateStatefulSetStrategyType {
		defaults.Pointer(&rolling.Partition, 0)
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	nameClaims(spec.VolumeClaimTemplates)
}

// nameClaims sets the type of the claim templates of a StatefulSet, whatever the client sends.
func nameClaims(claims []corev1.PersistentVolumeClaim) {
	for i := range claims {
		claims[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
}

// selectTemplate sets a missing selector and missing labels of a workload to the labels of its
// template.
func selectTemplate(selector **metav1.LabelSelector, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec) {
	if template.Labels == nil {
		return
	}
	defaults.Pointer(selector, metav1.LabelSelector{MatchLabels: maps.Clone(template.Labels)})
	if len(meta.Labels) == 0 {
		meta.Labels = maps.Clone(template.Labels)
	}
}

func defaultReplicationController(c *corev1.ReplicationController) {
	defaults.Pointer(&c.Spec.Replicas, 1)
	if c.Spec.Template == nil || c.Spec.Template.Labels == nil {
		return
	}
	if len(c.Spec.Selector) == 0 {
		c.Spec.Selector = maps.Clone(c.Spec.Template.Labels)
	}
	if len(c.Labels) == 0 {
		c.Labels = maps.Clone(c.Spec.Template.Labels)
	}
}
