package apps

import (
	"math"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func extensionsTypes(f *defaults.Functions) {
	defaults.On(f, defaultExtensionsDeployment)
	defaults.On(f, defaultExtensionsDaemonSet)
	defaults.On(f, func(r *extensionsv1beta1.ReplicaSet) {
		selectTemplate(&r.Spec.Selector, &r.ObjectMeta, &r.Spec.Template)
		defaults.Pointer(&r.Spec.Replicas, 1)
	})
}

// defaultExtensionsDeployment replaces one pod at a time, has no deadline and keeps all history.
func defaultExtensionsDeployment(d *extensionsv1beta1.Deployment) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	defaults.Pointer(&spec.Replicas, 1)
	defaults.Value(&spec.Strategy.Type, extensionsv1beta1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == extensionsv1beta1.RollingUpdateDeploymentStrategyType || spec.Strategy.RollingUpdate != nil {
		defaults.Pointer(&spec.Strategy.RollingUpdate, extensionsv1beta1.RollingUpdateDeployment{})
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		defaults.Pointer(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromInt32(1))
	}
	defaults.Pointer(&spec.ProgressDeadlineSeconds, math.MaxInt32)
	defaults.Pointer(&spec.RevisionHistoryLimit, math.MaxInt32)
}

// defaultExtensionsDaemonSet sets the strategy OnDelete: pods are replaced after they have been
// deleted.
func defaultExtensionsDaemonSet(d *extensionsv1beta1.DaemonSet) {
	spec := &d.Spec
	selectTemplate(&spec.Selector, &d.ObjectMeta, &spec.Template)
	defaults.Value(&spec.UpdateStrategy.Type, extensionsv1beta1.OnDeleteDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == extensionsv1beta1.RollingUpdateDaemonSetStrategyType {
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate, extensionsv1beta1.RollingUpdateDaemonSet{})
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		defaults.Pointer(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // a stored object without the field has 0
		defaults.Pointer(&rolling.MaxUnavailable, intstr.FromInt32(0))
		defaults.Pointer(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	defaults.Pointer(&spec.RevisionHistoryLimit, 10)
}
