package apps

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Conversions are the conversions of this group's types. The hubs are the types of
// extensions/v1beta1 where these have fields that apps/v1 lacks.
func Conversions() []convert.Rule {
	return []convert.Rule{
		convert.Spoke(
			func(in *appsv1.Deployment, hub *extensionsv1beta1.Deployment) error {
				counted(hub.Spec.Strategy.RollingUpdate)
				return rollbackIn(in.Annotations, hub)
			},
			func(hub *extensionsv1beta1.Deployment, out *appsv1.Deployment) error {
				rollbackOut(hub, &out.ObjectMeta)
				return nil
			},
		),
		convert.Spoke(
			func(in *appsv1beta2.Deployment, hub *extensionsv1beta1.Deployment) error {
				counted(hub.Spec.Strategy.RollingUpdate)
				return rollbackIn(in.Annotations, hub)
			},
			func(hub *extensionsv1beta1.Deployment, out *appsv1beta2.Deployment) error {
				rollbackOut(hub, &out.ObjectMeta)
				return nil
			},
		),
		convert.Spoke(func(_ *appsv1beta1.Deployment, hub *extensionsv1beta1.Deployment) error {
			counted(hub.Spec.Strategy.RollingUpdate)
			return nil
		}, nil),
		convert.Spoke(func(_, hub *extensionsv1beta1.Deployment) error {
			counted(hub.Spec.Strategy.RollingUpdate)
			return nil
		}, nil),
		kind.Lossy[extensionsv1beta1.DeploymentSpec, appsv1.DeploymentSpec](),
		kind.Lossy[extensionsv1beta1.DeploymentSpec, appsv1beta2.DeploymentSpec](),

		convert.Spoke(
			func(in *appsv1.DaemonSet, hub *extensionsv1beta1.DaemonSet) error {
				countedDaemons(hub.Spec.UpdateStrategy.RollingUpdate)
				return generationIn(in.Annotations, hub)
			},
			func(hub *extensionsv1beta1.DaemonSet, out *appsv1.DaemonSet) error {
				annotate(&out.ObjectMeta, appsv1.DeprecatedTemplateGeneration, hub.Spec.TemplateGeneration)
				return nil
			},
		),
		convert.Spoke(
			func(in *appsv1beta2.DaemonSet, hub *extensionsv1beta1.DaemonSet) error {
				countedDaemons(hub.Spec.UpdateStrategy.RollingUpdate)
				return generationIn(in.Annotations, hub)
			},
			func(hub *extensionsv1beta1.DaemonSet, out *appsv1beta2.DaemonSet) error {
				annotate(&out.ObjectMeta, appsv1.DeprecatedTemplateGeneration, hub.Spec.TemplateGeneration)
				return nil
			},
		),
		convert.Spoke(func(_, hub *extensionsv1beta1.DaemonSet) error {
			countedDaemons(hub.Spec.UpdateStrategy.RollingUpdate)
			return nil
		}, nil),
		kind.Lossy[extensionsv1beta1.DaemonSetSpec, appsv1.DaemonSetSpec](),
		kind.Lossy[extensionsv1beta1.DaemonSetSpec, appsv1beta2.DaemonSetSpec](),

		kind.Same[appsv1.ReplicaSet, appsv1.ReplicaSet](),
		kind.Same[appsv1.ReplicaSet, appsv1beta2.ReplicaSet](),
		kind.Same[appsv1.ReplicaSet, extensionsv1beta1.ReplicaSet](),

		kind.Same[appsv1.ControllerRevision, appsv1.ControllerRevision](),
		kind.Same[appsv1.ControllerRevision, appsv1beta2.ControllerRevision](),
		kind.Same[appsv1.ControllerRevision, appsv1beta1.ControllerRevision](),

		convert.Spoke(
			func(_ *appsv1.StatefulSet, hub *appsv1beta1.StatefulSet) error { return partitioned(hub) },
			func(_ *appsv1beta1.StatefulSet, out *appsv1.StatefulSet) error {
				return claimsOut(out.Spec.VolumeClaimTemplates)
			},
		),
		convert.Spoke(
			func(_ *appsv1beta2.StatefulSet, hub *appsv1beta1.StatefulSet) error { return partitioned(hub) },
			func(_ *appsv1beta1.StatefulSet, out *appsv1beta2.StatefulSet) error {
				return claimsOut(out.Spec.VolumeClaimTemplates)
			},
		),
		convert.Spoke(nil, func(_, out *appsv1beta1.StatefulSet) error {
			return errors.Join(partitioned(out), claimsOut(out.Spec.VolumeClaimTemplates))
		}),
		// In v1beta1 the generation is optional.
		kind.Both(
			func(in *appsv1.StatefulSetStatus, hub *appsv1beta1.StatefulSetStatus) error {
				hub.ObservedGeneration = kind.Clone(&in.ObservedGeneration)
				return nil
			},
			func(hub *appsv1beta1.StatefulSetStatus, out *appsv1.StatefulSetStatus) error {
				out.ObservedGeneration = kind.Value(hub.ObservedGeneration)
				return nil
			},
		),
		kind.Both(
			func(in *appsv1beta2.StatefulSetStatus, hub *appsv1beta1.StatefulSetStatus) error {
				hub.ObservedGeneration = kind.Clone(&in.ObservedGeneration)
				return nil
			},
			func(hub *appsv1beta1.StatefulSetStatus, out *appsv1beta2.StatefulSetStatus) error {
				out.ObservedGeneration = kind.Value(hub.ObservedGeneration)
				return nil
			},
		),

		kind.Same[extensionsv1beta1.DeploymentRollback, extensionsv1beta1.DeploymentRollback](),
		kind.Same[extensionsv1beta1.DeploymentRollback, appsv1beta1.DeploymentRollback](),
	}
}

// counted sets missing numbers of a rolling update to 0.
func counted(r *extensionsv1beta1.RollingUpdateDeployment) {
	if r != nil {
		r.MaxUnavailable, r.MaxSurge = number(r.MaxUnavailable), number(r.MaxSurge)
	}
}

func countedDaemons(r *extensionsv1beta1.RollingUpdateDaemonSet) {
	if r != nil {
		r.MaxUnavailable, r.MaxSurge = number(r.MaxUnavailable), number(r.MaxSurge)
	}
}

func number(n *intstr.IntOrString) *intstr.IntOrString {
	if n == nil {
		return &intstr.IntOrString{}
	}
	return n
}

// partitioned sets the missing partition of a rolling update to 0.
func partitioned(s *appsv1beta1.StatefulSet) error {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition == nil {
		r.Partition = new(int32)
	}
	return nil
}

// rollbackIn sets the field rollbackTo from the annotation that keeps it in versions without the
// field.
func rollbackIn(annotations map[string]string, hub *extensionsv1beta1.Deployment) error {
	text := annotations[appsv1.DeprecatedRollbackTo]
	if text == "" {
		return nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("failed to parse annotation[%s]=%s as int64: %v", appsv1.DeprecatedRollbackTo, text, err)
	}
	hub.Spec.RollbackTo = &extensionsv1beta1.RollbackConfig{Revision: revision}
	delete(hub.Annotations, appsv1.DeprecatedRollbackTo)
	return nil
}

func rollbackOut(hub *extensionsv1beta1.Deployment, meta *metav1.ObjectMeta) {
	delete(meta.Annotations, appsv1.DeprecatedRollbackTo)
	if hub.Spec.RollbackTo != nil {
		annotate(meta, appsv1.DeprecatedRollbackTo, hub.Spec.RollbackTo.Revision)
	}
}

func generationIn(annotations map[string]string, hub *extensionsv1beta1.DaemonSet) (err error) {
	if text, ok := annotations[appsv1.DeprecatedTemplateGeneration]; ok {
		hub.Spec.TemplateGeneration, err = strconv.ParseInt(text, 10, 64)
		delete(hub.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	return err
}

func annotate(meta *metav1.ObjectMeta, key string, value int64) {
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[key] = strconv.FormatInt(value, 10)
}

// claimsOut sets the type of the claim templates of a StatefulSet.
func claimsOut(claims []corev1.PersistentVolumeClaim) error {
	for i := range claims {
		claims[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
	return nil
}
