package podsecurity

import (
	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// attributes implements the library's view of a request. It decodes objects on demand, as most
// namespaces need none.
type attributes struct{ a *resource.Admitted }

func (x attributes) GetName() string                     { return x.a.Name }
func (x attributes) GetKind() schema.GroupVersionKind    { return x.a.Kind }
func (x attributes) GetSubresource() string              { return x.a.Request.Subresource }
func (x attributes) GetOperation() admissionv1.Operation { return admissionv1.Operation(x.a.Operation) }
func (x attributes) GetUserName() string                 { return x.a.Request.User.GetName() }

func (x attributes) GetNamespace() string {
	if x.a.Request.Definition.GroupResource() == namespaces {
		return x.a.Name // as in Kubernetes
	}
	return x.a.Request.Namespace
}

func (x attributes) GetResource() schema.GroupVersionResource {
	return x.a.Request.GroupResource().WithVersion(x.a.Request.Version.Name)
}

func (x attributes) GetObject() (runtime.Object, error)    { return x.decode(x.a.Object) }
func (x attributes) GetOldObject() (runtime.Object, error) { return x.decode(x.a.Old) }

func (x attributes) decode(obj resource.Tree) (runtime.Object, error) {
	if obj == nil {
		return nil, nil
	}
	gr := x.a.Request.Definition.GroupResource()
	if gr == namespaces {
		return as[corev1.Namespace](obj)
	}
	decode := types[gr]
	if decode == nil || x.a.Kind.Kind != x.a.Request.Definition.Kind {
		return nil, apierrors.NewBadRequest("unexpected type " + x.a.Kind.String())
	}
	return decode(obj)
}

// types decode pods and the kinds that contain pod templates.
var types = map[schema.GroupResource]func(resource.Tree) (runtime.Object, error){
	pods:                                 as[corev1.Pod],
	{Resource: "replicationcontrollers"}: as[corev1.ReplicationController],
	{Resource: "podtemplates"}:           as[corev1.PodTemplate],
	{Group: appsv1.GroupName, Resource: "replicasets"}:  as[appsv1.ReplicaSet],
	{Group: appsv1.GroupName, Resource: "deployments"}:  as[appsv1.Deployment],
	{Group: appsv1.GroupName, Resource: "statefulsets"}: as[appsv1.StatefulSet],
	{Group: appsv1.GroupName, Resource: "daemonsets"}:   as[appsv1.DaemonSet],
	{Group: batchv1.GroupName, Resource: "jobs"}:        as[batchv1.Job],
	{Group: batchv1.GroupName, Resource: "cronjobs"}:    as[batchv1.CronJob],
}

func as[T any, P interface {
	*T
	runtime.Object
}](obj resource.Tree) (runtime.Object, error) {
	decoded, err := admission.Decode[T](obj)
	return P(decoded), err
}
