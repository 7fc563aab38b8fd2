package defaults

import (
	"math"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func extensionsTypes(f *functions) {
	on(f, defaultExtensionsDeployment)
	on(f, defaultExtensionsDaemonSet)
	on(f, func(r *extensionsv1beta1.ReplicaSet) {
		selectTemplate(&r.Spec.Selector, &r.ObjectMeta, &r.Spec.Template)
		set(&r.Spec.Replicas, 1)
	})
	on(f, defaultExtensionsNetworkPolicy)
	on(f, func(p *extensionsv1beta1.HTTPIngressPath) {
		set(&p.PathType, extensionsv1beta1.PathTypeImplementationSpecific)
	})
}

// defaultExtensionsDeployment replaces one pod at a time, waits for ever and keeps all history.
func defaultExtensionsDeployment(d *extensionsv1beta1.Deployment) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	set(&spec.Replicas, 1)
	fill(&spec.Strategy.Type, extensionsv1beta1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == extensionsv1beta1.RollingUpdateDeploymentStrategyType || spec.Strategy.RollingUpdate != nil {
		set(&spec.Strategy.RollingUpdate, extensionsv1beta1.RollingUpdateDeployment{})
		set(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		set(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromInt32(1))
	}
	set(&spec.ProgressDeadlineSeconds, math.MaxInt32)
	set(&spec.RevisionHistoryLimit, math.MaxInt32)
}

// defaultExtensionsDaemonSet waits until somebody deletes the pods.
func defaultExtensionsDaemonSet(d *extensionsv1beta1.DaemonSet) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	fill(&spec.UpdateStrategy.Type, extensionsv1beta1.OnDeleteDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == extensionsv1beta1.RollingUpdateDaemonSetStrategyType {
		set(&spec.UpdateStrategy.RollingUpdate, extensionsv1beta1.RollingUpdateDaemonSet{})
		set(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		set(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // what is not said is nothing, once it has been stored
		set(&rolling.MaxUnavailable, intstr.FromInt32(0))
		set(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	set(&spec.RevisionHistoryLimit, 10)
}

// defaultExtensionsNetworkPolicy names no protocol for ports: Kubernetes means to, and sets it in a copy.
func defaultExtensionsNetworkPolicy(p *extensionsv1beta1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []extensionsv1beta1.PolicyType{extensionsv1beta1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, extensionsv1beta1.PolicyTypeEgress)
		}
	}
}
