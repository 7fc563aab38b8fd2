package podsecurity

import (
	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podOf decodes a pod.
func podOf(a *resource.Admitted, obj resource.Tree) (*corev1.Pod, error) {
	if a.Kind.Kind != a.Request.Definition.Kind {
		return nil, apierrors.NewBadRequest("unexpected type " + a.Kind.String())
	}
	return admission.Decode[corev1.Pod](obj)
}

// templateOf decodes the pod template of an object; nil if it has none.
func templateOf(a *resource.Admitted) (*corev1.PodTemplateSpec, error) {
	find := templates[a.Request.Definition.GroupResource()]
	if find == nil || a.Kind.Kind != a.Request.Definition.Kind {
		return nil, apierrors.NewBadRequest("unexpected type " + a.Kind.String())
	}
	return find(a.Object)
}

// templates find the pod templates in the objects of all kinds that have them.
var templates = map[schema.GroupResource]func(resource.Tree) (*corev1.PodTemplateSpec, error){
	{Resource: "replicationcontrollers"}: in(func(c *corev1.ReplicationController) *corev1.PodTemplateSpec { return c.Spec.Template }),
	{Resource: "podtemplates"}:           in(func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template }),
	{Group: appsv1.GroupName, Resource: "replicasets"}: in(func(s *appsv1.ReplicaSet) *corev1.PodTemplateSpec {
		return &s.Spec.Template
	}),
	{Group: appsv1.GroupName, Resource: "deployments"}: in(func(d *appsv1.Deployment) *corev1.PodTemplateSpec {
		return &d.Spec.Template
	}),
	{Group: appsv1.GroupName, Resource: "statefulsets"}: in(func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec {
		return &s.Spec.Template
	}),
	{Group: appsv1.GroupName, Resource: "daemonsets"}: in(func(s *appsv1.DaemonSet) *corev1.PodTemplateSpec {
		return &s.Spec.Template
	}),
	{Group: batchv1.GroupName, Resource: "jobs"}: in(func(j *batchv1.Job) *corev1.PodTemplateSpec { return &j.Spec.Template }),
	{Group: batchv1.GroupName, Resource: "cronjobs"}: in(func(j *batchv1.CronJob) *corev1.PodTemplateSpec {
		return &j.Spec.JobTemplate.Spec.Template
	}),
}

// in returns a function that decodes an object and finds its template.
func in[T any](template func(*T) *corev1.PodTemplateSpec) func(resource.Tree) (*corev1.PodTemplateSpec, error) {
	return func(obj resource.Tree) (*corev1.PodTemplateSpec, error) {
		decoded, err := admission.Decode[T](obj)
		if err != nil {
			return nil, err
		}
		return template(decoded), nil
	}
}
