package podautoscaler_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/kapok-dev/kapok/kapoktest"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queues is a definition whose lists look like those of an external metric: the objects of the kind
// are the values of the metric queue.
const queues = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: queue.external.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, a test"}
spec:
  group: external.metrics.k8s.io
  scope: Namespaced
  names: {plural: queue, singular: queue, kind: Queue, listKind: QueueList}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {value: {type: string}}}}
`

// newQueue returns a value of the metric queue.
func newQueue(value int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "Queue",
		"metadata": map[string]any{"namespace": "default", "name": "q"}, "value": fmt.Sprint(value),
	}}
}

// newTarget returns a ReplicaSet. No controller creates its pods.
func newTarget(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	rs.Spec = appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}
	rs.Spec.Template.Labels = labels
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	return rs
}

// newAutoscaler returns an autoscaler of a ReplicaSet that wants a part of ten of the metric queue
// for each pod.
func newAutoscaler(name, target string, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: target},
		MinReplicas:    &least, MaxReplicas: most,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(10, resource.DecimalSI)},
		}}},
	}
	return h
}

var withQueues = kapoktest.CRDsOf(fstest.MapFS{"queue.yaml": {Data: []byte(queues)}})
